import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * What Apache Pulsar's own Java client finds of transactions at a broker that has them.
 *
 * <pre>java -cp ... Transactions.java SERVICE_URL HTTP_URL [NAME...]</pre>
 *
 * Prints "ok NAME" or "FAILED NAME reason" for each check, as Checks.java does, and ends with 0
 * either way. Each check has a topic of its own, named after it.
 */
public class Transactions {
    static final int SECONDS_MAX = 90;
    static final int QUIET_MS = 800;
    static final String NAMESPACE = "public/default";

    interface Body {
        void run(String topic) throws Exception;
    }

    static final Map<String, Body> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("sends_are_seen_after_the_commit", Transactions::sendsAreSeenAfterTheCommit);
        CHECKS.put("sends_are_never_seen_after_an_abort", Transactions::sendsAreNeverSeenAfterAnAbort);
        CHECKS.put("plain_messages_beside", Transactions::plainMessagesBeside);
        CHECKS.put("several_topics", Transactions::severalTopics);
        CHECKS.put("partitions", Transactions::partitions);
        CHECKS.put("acks_on_shared", topic -> acks(topic, SubscriptionType.Shared));
        CHECKS.put("acks_on_key_shared", topic -> acks(topic, SubscriptionType.Key_Shared));
        CHECKS.put("acks_on_exclusive", topic -> acks(topic, SubscriptionType.Exclusive));
        CHECKS.put("acks_on_failover", topic -> acks(topic, SubscriptionType.Failover));
        CHECKS.put("acks_inside_a_batch", Transactions::acksInsideABatch);
        CHECKS.put("cumulative_acks", Transactions::cumulativeAcks);
        CHECKS.put("conflict_of_two_transactions", Transactions::conflictOfTwoTransactions);
        CHECKS.put("conflict_with_what_is_acked", Transactions::conflictWithWhatIsAcked);
        CHECKS.put("consume_and_produce", Transactions::consumeAndProduce);
        CHECKS.put("chunks", Transactions::chunks);
        CHECKS.put("delayed", Transactions::delayed);
        CHECKS.put("timeout", Transactions::timeout);
        CHECKS.put("unload_in_the_middle", Transactions::unloadInTheMiddle);
        CHECKS.put("readers_and_last_ids", Transactions::readersAndLastIds);
        CHECKS.put("an_end_is_an_end", Transactions::anEndIsAnEnd);
        CHECKS.put("many_at_once", Transactions::manyAtOnce);
    }

    static PulsarClient client;
    static String httpUrl;

    public static void main(String[] arguments) throws Exception {
        client = PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build();
        httpUrl = arguments[1];
        List<String> wanted = Arrays.asList(arguments).subList(2, arguments.length);
        ExecutorService threads = Executors.newFixedThreadPool(4);
        Map<String, Future<?>> running = new LinkedHashMap<>();
        CHECKS.forEach((name, body) -> {
            if (wanted.isEmpty() || wanted.contains(name)) {
                running.put(name, threads.submit(() -> {
                    body.run("persistent://" + NAMESPACE + "/txn-" + name.replace('_', '-'));
                    return null;
                }));
            }
        });
        for (Map.Entry<String, Future<?>> check : running.entrySet()) {
            System.out.println(outcome(check.getKey(), check.getValue()));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static String outcome(String name, Future<?> running) throws Exception {
        try {
            running.get(SECONDS_MAX, TimeUnit.SECONDS);
            return "ok " + name;
        } catch (ExecutionException failed) {
            String reason = String.valueOf(failed.getCause()).replace('\n', ' ');
            return "FAILED " + name + " " + reason;
        } catch (TimeoutException late) {
            running.cancel(true);
            return "FAILED " + name + " not done after " + SECONDS_MAX + " s";
        }
    }

    // ---- What the checks share -----------------------------------------------------------

    static void check(boolean fine, String what) {
        if (!fine) {
            throw new AssertionError(what);
        }
    }

    static void same(Object found, Object wanted) {
        check(wanted.equals(found), "found " + found + ", wanted " + wanted);
    }

    static Transaction begin(int seconds) throws Exception {
        return client.newTransaction()
            .withTransactionTimeout(seconds, TimeUnit.SECONDS).build().get();
    }

    static ProducerBuilder<String> producing(String topic) {
        return client.newProducer(Schema.STRING).topic(topic)
            .sendTimeout(0, TimeUnit.SECONDS).enableBatching(false);
    }

    static ConsumerBuilder<String> consuming(String topic, SubscriptionType type) {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName("sub")
            .subscriptionType(type).enableBatchIndexAcknowledgment(true)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    static List<String> texts(int first, int count) {
        List<String> texts = new ArrayList<>();
        for (int n = first; n < first + count; n++) {
            texts.add(String.format("message-%03d", n));
        }
        return texts;
    }

    static void send(Producer<String> producer, Transaction txn, List<String> texts)
        throws Exception {
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (String text : texts) {
            sent.add((txn == null ? producer.newMessage() : producer.newMessage(txn))
                .key(text).value(text).sendAsync());
        }
        producer.flush();
        for (CompletableFuture<MessageId> one : sent) {
            one.get();
        }
    }

    static List<Message<String>> receive(Consumer<String> consumer, int count) throws Exception {
        List<Message<String>> got = new ArrayList<>();
        while (got.size() < count) {
            Message<String> message = consumer.receive(30, TimeUnit.SECONDS);
            check(message != null, got.size() + " of " + count + " came");
            got.add(message);
        }
        return got;
    }

    static List<String> sorted(List<Message<String>> messages) {
        List<String> values = new ArrayList<>();
        messages.forEach(message -> values.add(message.getValue()));
        Collections.sort(values);
        return values;
    }

    static void nothingComes(Consumer<String> consumer) throws Exception {
        Message<String> message = consumer.receive(QUIET_MS, TimeUnit.MILLISECONDS);
        check(message == null, message == null ? "" : message.getValue() + " came");
    }

    /** The error of what must fail. */
    static Throwable fails(CompletableFuture<?> future) throws Exception {
        try {
            future.get(30, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            return failed.getCause();
        }
        throw new AssertionError("it went well");
    }

    static void put(String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(httpUrl + "/admin/v2/" + path))
            .header("Content-Type", "application/json")
            .PUT(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer =
            HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        check(answer.statusCode() < 300, path + ": " + answer.statusCode() + " " + answer.body());
    }

    static String path(String topic) {
        return topic.replace("://", "/");
    }

    // ---- Sends ---------------------------------------------------------------------------

    static void sendsAreSeenAfterTheCommit(String topic) throws Exception {
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        for (boolean batched : new boolean[] {false, true}) {
            Producer<String> producer = producing(topic).enableBatching(batched).create();
            Transaction txn = begin(60);
            send(producer, txn, texts(0, 10));
            nothingComes(consumer);
            txn.commit().get();
            List<Message<String>> got = receive(consumer, 10);
            same(sorted(got), texts(0, 10));
            for (Message<String> message : got) {
                consumer.acknowledge(message);
            }
            producer.close();
        }
    }

    static void sendsAreNeverSeenAfterAnAbort(String topic) throws Exception {
        Consumer<String> consumer = consuming(topic, SubscriptionType.Exclusive).subscribe();
        Producer<String> producer = producing(topic).create();
        Transaction txn = begin(60);
        send(producer, txn, texts(0, 5));
        txn.abort().get();
        nothingComes(consumer);
        send(producer, null, texts(5, 2));
        same(sorted(receive(consumer, 2)), texts(5, 2));
        nothingComes(consumer);
    }

    static void plainMessagesBeside(String topic) throws Exception {
        Consumer<String> consumer = consuming(topic, SubscriptionType.Exclusive).subscribe();
        Producer<String> producer = producing(topic).create();
        Transaction txn = begin(60);
        send(producer, null, texts(0, 3));
        send(producer, txn, texts(3, 3));
        send(producer, null, texts(6, 3));
        // Those behind the first one of an open transaction wait with it.
        same(sorted(receive(consumer, 3)), texts(0, 3));
        nothingComes(consumer);
        txn.commit().get();
        same(sorted(receive(consumer, 6)), texts(3, 6));
    }

    static void severalTopics(String topic) throws Exception {
        List<Consumer<String>> consumers = new ArrayList<>();
        Transaction committed = begin(60);
        Transaction aborted = begin(60);
        for (String letter : List.of("-a", "-b", "-c")) {
            consumers.add(consuming(topic + letter, SubscriptionType.Shared).subscribe());
            Producer<String> producer = producing(topic + letter).create();
            send(producer, committed, texts(0, 2));
            send(producer, aborted, texts(2, 2));
        }
        aborted.abort().get();
        committed.commit().get();
        for (Consumer<String> consumer : consumers) {
            same(sorted(receive(consumer, 2)), texts(0, 2));
            nothingComes(consumer);
        }
    }

    static void partitions(String topic) throws Exception {
        put(path(topic) + "/partitions", "3");
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        Producer<String> producer = producing(topic).create();
        Transaction txn = begin(60);
        send(producer, txn, texts(0, 12));
        nothingComes(consumer);
        txn.commit().get();
        List<Message<String>> got = receive(consumer, 12);
        same(sorted(got), texts(0, 12));
        Transaction acking = begin(60);
        for (Message<String> message : got) {
            consumer.acknowledgeAsync(message.getMessageId(), acking).get();
        }
        acking.commit().get();
        consumer.close();
        nothingComes(consuming(topic, SubscriptionType.Shared).subscribe());
    }

    // ---- Acks ----------------------------------------------------------------------------

    static void acks(String topic, SubscriptionType type) throws Exception {
        Producer<String> producer = producing(topic).create();
        send(producer, null, texts(0, 6));
        Consumer<String> consumer = consuming(topic, type).subscribe();
        Transaction aborted = begin(60);
        for (Message<String> message : receive(consumer, 6)) {
            consumer.acknowledgeAsync(message.getMessageId(), aborted).get();
        }
        nothingComes(consumer);
        aborted.abort().get();
        consumer.close();
        consumer = consuming(topic, type).subscribe();
        List<Message<String>> again = receive(consumer, 6);
        same(sorted(again), texts(0, 6));
        Transaction committed = begin(60);
        for (Message<String> message : again.subList(0, 4)) {
            consumer.acknowledgeAsync(message.getMessageId(), committed).get();
        }
        committed.commit().get();
        consumer.close();
        consumer = consuming(topic, type).subscribe();
        same(sorted(receive(consumer, 2)), texts(4, 2));
        nothingComes(consumer);
    }

    static void acksInsideABatch(String topic) throws Exception {
        Producer<String> producer = producing(topic).enableBatching(true)
            .batchingMaxPublishDelay(1, TimeUnit.HOURS).create();
        send(producer, null, texts(0, 10));
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        List<Message<String>> got = receive(consumer, 10);
        Transaction aborted = begin(60);
        Transaction committed = begin(60);
        for (int at = 0; at < 10; at++) {
            Transaction txn = at % 2 == 0 ? committed : aborted;
            consumer.acknowledgeAsync(got.get(at).getMessageId(), txn).get();
        }
        committed.commit().get();
        aborted.abort().get();
        consumer.close();
        consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        List<String> odd = new ArrayList<>();
        for (int at = 1; at < 10; at += 2) {
            odd.add(got.get(at).getValue());
        }
        same(sorted(receive(consumer, 5)), odd);
        nothingComes(consumer);
    }

    static void cumulativeAcks(String topic) throws Exception {
        Producer<String> producer = producing(topic).create();
        send(producer, null, texts(0, 8));
        Consumer<String> consumer = consuming(topic, SubscriptionType.Exclusive).subscribe();
        List<Message<String>> got = receive(consumer, 8);
        Transaction aborted = begin(60);
        consumer.acknowledgeCumulativeAsync(got.get(6).getMessageId(), aborted).get();
        aborted.abort().get();
        consumer.close();
        consumer = consuming(topic, SubscriptionType.Exclusive).subscribe();
        got = receive(consumer, 8);
        Transaction committed = begin(60);
        consumer.acknowledgeCumulativeAsync(got.get(4).getMessageId(), committed).get();
        committed.commit().get();
        consumer.close();
        same(sorted(receive(consuming(topic, SubscriptionType.Exclusive).subscribe(), 3)), texts(5, 3));
    }

    static void conflictOfTwoTransactions(String topic) throws Exception {
        send(producing(topic).create(), null, texts(0, 1));
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        MessageId id = receive(consumer, 1).get(0).getMessageId();
        Transaction first = begin(60);
        Transaction second = begin(60);
        consumer.acknowledgeAsync(id, first).get();
        Throwable conflict = fails(consumer.acknowledgeAsync(id, second));
        check(conflict instanceof PulsarClientException.TransactionConflictException,
            "not a conflict: " + conflict);
        second.abort().get();
        first.commit().get();
        consumer.close();
        nothingComes(consuming(topic, SubscriptionType.Shared).subscribe());
    }

    static void conflictWithWhatIsAcked(String topic) throws Exception {
        send(producing(topic).create(), null, texts(0, 2));
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        List<Message<String>> got = receive(consumer, 2);
        Transaction before = begin(60);
        consumer.acknowledgeAsync(got.get(0).getMessageId(), before).get();
        before.commit().get();
        Transaction txn = begin(60);
        Throwable conflict = fails(consumer.acknowledgeAsync(got.get(0).getMessageId(), txn));
        check(conflict instanceof PulsarClientException.TransactionConflictException,
            "not a conflict: " + conflict);
        txn.abort().get();
    }

    static void consumeAndProduce(String topic) throws Exception {
        send(producing(topic).create(), null, texts(0, 20));
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        Consumer<String> reader = consuming(topic + "-out", SubscriptionType.Shared).subscribe();
        Producer<String> producer = producing(topic + "-out").create();
        for (int at = 0; at < 20; at++) {
            Message<String> message = receive(consumer, 1).get(0);
            Transaction txn = begin(60);
            producer.newMessage(txn).value(message.getValue()).sendAsync();
            consumer.acknowledgeAsync(message.getMessageId(), txn);
            txn.commit().get();
        }
        same(sorted(receive(reader, 20)), texts(0, 20));
        consumer.close();
        nothingComes(consuming(topic, SubscriptionType.Shared).subscribe());
        nothingComes(reader);
    }

    // ---- Messages of other kinds ---------------------------------------------------------

    static void chunks(String topic) throws Exception {
        Producer<String> producer = producing(topic).enableChunking(true)
            .chunkMaxMessageSize(10_000).create();
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        String large = "x".repeat(55_000);
        Transaction aborted = begin(60);
        send(producer, aborted, List.of("y".repeat(55_000)));
        aborted.abort().get();
        Transaction committed = begin(60);
        send(producer, committed, List.of(large));
        nothingComes(consumer);
        committed.commit().get();
        Message<String> message = receive(consumer, 1).get(0);
        same(message.getValue(), large);
        Transaction acking = begin(60);
        consumer.acknowledgeAsync(message.getMessageId(), acking).get();
        acking.commit().get();
        consumer.close();
        nothingComes(consuming(topic, SubscriptionType.Shared).subscribe());
    }

    static void delayed(String topic) throws Exception {
        Producer<String> producer = producing(topic).create();
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        Transaction txn = begin(60);
        long at = System.currentTimeMillis() + 3000;
        producer.newMessage(txn).value("later").deliverAt(at).send();
        producer.newMessage(txn).value("now").send();
        txn.commit().get();
        List<Message<String>> got = receive(consumer, 2);
        same(got.get(0).getValue(), "now");
        // A tick of Apache Pulsar's tracker may come early.
        check(System.currentTimeMillis() >= at - 1000, "it came before its time");
    }

    // ---- The end -------------------------------------------------------------------------

    static void timeout(String topic) throws Exception {
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        Producer<String> producer = producing(topic).create();
        Transaction txn = begin(2);
        send(producer, txn, texts(0, 3));
        // What is sent behind it is seen as soon as its time is over, and it is not.
        send(producer, null, texts(3, 1));
        same(sorted(receive(consumer, 1)), texts(3, 1));
        fails(txn.commit());
        nothingComes(consumer);
    }

    static void unloadInTheMiddle(String topic) throws Exception {
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        Producer<String> producer = producing(topic).create();
        send(producer, null, texts(0, 2));
        Transaction txn = begin(60);
        for (Message<String> message : receive(consumer, 2)) {
            consumer.acknowledgeAsync(message.getMessageId(), txn).get();
        }
        send(producer, txn, texts(2, 2));
        put(path(topic) + "/unload", "");
        send(producer, txn, texts(4, 2));
        nothingComes(consumer);
        txn.commit().get();
        same(sorted(receive(consumer, 4)), texts(2, 4));
    }

    static void readersAndLastIds(String topic) throws Exception {
        Producer<String> producer = producing(topic).create();
        send(producer, null, texts(0, 2));
        Transaction txn = begin(60);
        send(producer, txn, texts(2, 2));
        Reader<String> reader = client.newReader(Schema.STRING).topic(topic)
            .startMessageId(MessageId.earliest).create();
        List<String> seen = new ArrayList<>();
        while (reader.hasMessageAvailable()) {
            seen.add(reader.readNext(30, TimeUnit.SECONDS).getValue());
        }
        same(seen, texts(0, 2));
        txn.commit().get();
        while (reader.hasMessageAvailable()) {
            seen.add(reader.readNext(30, TimeUnit.SECONDS).getValue());
        }
        same(seen, texts(0, 4));
    }

    static void anEndIsAnEnd(String topic) throws Exception {
        Producer<String> producer = producing(topic).create();
        Transaction committed = begin(60);
        send(producer, committed, texts(0, 1));
        committed.commit().get();
        fails(committed.commit());
        fails(committed.abort());
        fails(producer.newMessage(committed).value("late").sendAsync());
        Transaction aborted = begin(60);
        aborted.abort().get();
        fails(aborted.commit());
    }

    static void manyAtOnce(String topic) throws Exception {
        Consumer<String> consumer = consuming(topic, SubscriptionType.Shared).subscribe();
        Producer<String> producer = producing(topic).create();
        List<Transaction> open = new ArrayList<>();
        for (int at = 0; at < 100; at++) {
            open.add(begin(60));
        }
        List<CompletableFuture<?>> sent = new ArrayList<>();
        List<String> wanted = new ArrayList<>();
        for (int at = 0; at < 100; at++) {
            String text = String.format("message-%03d", at);
            sent.add(producer.newMessage(open.get(at)).value(text).sendAsync());
            if (at % 3 != 0) {
                wanted.add(text);
            }
        }
        for (CompletableFuture<?> one : sent) {
            one.get();
        }
        List<CompletableFuture<Void>> ends = new ArrayList<>();
        for (int at = 99; at >= 0; at--) {
            ends.add(at % 3 == 0 ? open.get(at).abort() : open.get(at).commit());
        }
        for (CompletableFuture<Void> end : ends) {
            end.get();
        }
        same(sorted(receive(consumer, wanted.size())), wanted);
        nothingComes(consumer);
    }
}
