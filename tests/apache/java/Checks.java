import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.schema.GenericRecord;

/**
 * What Apache Pulsar's own Java client finds at a broker, check by check.
 *
 * <pre>java -cp ... Checks.java SERVICE_URL HTTP_URL [NAME...]</pre>
 *
 * Prints "ok NAME" or "FAILED NAME reason" for each check and ends with 0 either way. Each check
 * has a topic of its own, named after it, and expects a broker without one of that name.
 * "--list" prints the names; those that end in _1 and _2 are two halves, with whatever the caller
 * does to the broker in between, and run only when named.
 */
public class Checks {
    static final int SECONDS_MAX = 60;
    static final String NAMESPACE = "public/default";

    interface Body {
        void run(String topic) throws Exception;
    }

    static final Map<String, Body> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("exclusive", Checks::exclusive);
        CHECKS.put("failover", Checks::failover);
        CHECKS.put("shared", Checks::shared);
        CHECKS.put("key_shared", Checks::keyShared);
        CHECKS.put("key_shared_sticky", Checks::keySharedSticky);
        CHECKS.put("batch_index_acks_across_unload", Checks::batchIndexAcksAcrossUnload);
        CHECKS.put("batch_index_acks_across_reconnect", Checks::batchIndexAcksAcrossReconnect);
        CHECKS.put("batch_acked_index_by_index", Checks::batchAckedIndexByIndex);
        CHECKS.put("cumulative_inside_batch", Checks::cumulativeInsideBatch);
        CHECKS.put("acks_of_a_list", Checks::acksOfAList);
        CHECKS.put("nack", Checks::nack);
        CHECKS.put("nack_inside_batch", Checks::nackInsideBatch);
        CHECKS.put("ack_timeout", Checks::ackTimeout);
        CHECKS.put("dead_letter", Checks::deadLetter);
        CHECKS.put("delayed", Checks::delayed);
        CHECKS.put("chunked", Checks::chunked);
        CHECKS.put("compression", Checks::compression);
        CHECKS.put("properties", Checks::properties);
        CHECKS.put("reader_seek", Checks::readerSeek);
        CHECKS.put("reader_inside_batch", Checks::readerInsideBatch);
        CHECKS.put("consumer_seek", Checks::consumerSeek);
        CHECKS.put("last_message_id", Checks::lastMessageId);
        CHECKS.put("schema_json", Checks::schemaJson);
        CHECKS.put("schema_incompatible", Checks::schemaIncompatible);
        CHECKS.put("partitioned", Checks::partitioned);
        CHECKS.put("pattern", Checks::pattern);
        CHECKS.put("producer_exclusive", Checks::producerExclusive);
        CHECKS.put("producer_across_unload", Checks::producerAcrossUnload);
        CHECKS.put("terminated", Checks::terminated);
        CHECKS.put("non_persistent", Checks::nonPersistent);
        CHECKS.put("unsubscribe", Checks::unsubscribe);
        CHECKS.put("acks_across_restart_1", Checks::acksAcrossRestart1);
        CHECKS.put("acks_across_restart_2", Checks::acksAcrossRestart2);
    }

    static PulsarClient client;
    static String httpUrl;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("--list")) {
            CHECKS.keySet().forEach(System.out::println);
            return;
        }
        client = PulsarClient.builder().serviceUrl(arguments[0]).build();
        httpUrl = arguments[1];
        List<String> wanted = Arrays.asList(arguments).subList(2, arguments.length);
        // Several at a time: most of them wait most of the time.
        ExecutorService threads = Executors.newFixedThreadPool(4);
        Map<String, Future<?>> running = new LinkedHashMap<>();
        CHECKS.forEach((name, body) -> {
            if (wanted.isEmpty() ? !name.matches(".*_[12]") : wanted.contains(name)) {
                String topic = "persistent://" + NAMESPACE + "/" + name.replaceFirst("_[12]$", "");
                running.put(name, threads.submit(() -> {
                    body.run(topic);
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
            return "FAILED " + name + " " + reason(failed.getCause());
        } catch (TimeoutException late) {
            running.cancel(true);
            return "FAILED " + name + " not done after " + SECONDS_MAX + " s";
        }
    }

    static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString().replaceAll("\\s+", " "));
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getClassName().startsWith("Checks")) {
                text.append(" at line ").append(frame.getLineNumber());
            }
        }
        return text.toString();
    }

    // ---- Subscription types ------------------------------------------------------------------

    static void exclusive(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe()) {
            try {
                consumer(topic, SubscriptionType.Exclusive).subscribe().close();
                throw new AssertionError("a second consumer was let in");
            } catch (PulsarClientException.ConsumerBusyException expected) {
                // As it should be.
            }
            send(topic, numbers(0, 100));
            equal(numbers(0, 100), receiveAndAck(consumer, 100), "messages in order");
            nothingMore(consumer);
        }
    }

    static void failover(String topic) throws Exception {
        Consumer<String> first = consumer(topic, SubscriptionType.Failover).consumerName("a")
                .subscribe();
        try (Consumer<String> second = consumer(topic, SubscriptionType.Failover).consumerName("b")
                .subscribe()) {
            send(topic, numbers(0, 10));
            Consumer<String> active = first;
            Consumer<String> waiting = second;
            Message<String> message = first.receive(3, TimeUnit.SECONDS);
            if (message == null) {
                active = second;
                waiting = first;
                message = second.receive(3, TimeUnit.SECONDS);
            }
            equal("0", message.getValue(), "the active consumer's first message");
            active.acknowledgeAsync(message).get();
            equal(null, waiting.receive(200, TimeUnit.MILLISECONDS), "at the waiting consumer");
            active.close();
            equal(numbers(1, 10), receiveAndAck(waiting, 9), "what the next consumer takes over");
            waiting.close();
        }
    }

    static void shared(String topic) throws Exception {
        try (Consumer<String> one = consumer(topic, SubscriptionType.Shared)
                .receiverQueueSize(10).subscribe();
                Consumer<String> two = consumer(topic, SubscriptionType.Shared)
                .receiverQueueSize(10).subscribe()) {
            send(topic, numbers(0, 200));
            List<String> mine = new ArrayList<>();
            List<String> theirs = new ArrayList<>();
            while (mine.size() + theirs.size() < 200) {
                takeOne(one, mine);
                takeOne(two, theirs);
            }
            require(!mine.isEmpty() && !theirs.isEmpty(), "one of two consumers got everything");
            mine.addAll(theirs);
            equal(new TreeSet<>(numbers(0, 200)), new TreeSet<>(mine), "both together");
            nothingMore(one);
            nothingMore(two);
        }
    }

    static void takeOne(Consumer<String> consumer, List<String> into) throws Exception {
        Message<String> message = consumer.receive(100, TimeUnit.MILLISECONDS);
        if (message != null) {
            into.add(message.getValue());
            consumer.acknowledge(message);
        }
    }

    static void keyShared(String topic) throws Exception {
        try (Consumer<String> one = consumer(topic, SubscriptionType.Key_Shared).subscribe();
                Consumer<String> two = consumer(topic, SubscriptionType.Key_Shared).subscribe();
                Producer<String> producer = producer(topic).enableBatching(false).create()) {
            for (int i = 0; i < 300; i++) {
                producer.newMessage().key("key-" + i % 30).value(String.valueOf(i)).sendAsync();
            }
            producer.flush();
            Map<String, List<Integer>> byKey = new HashMap<>();
            Map<String, Consumer<String>> owners = new HashMap<>();
            int count = 0;
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (count < 300 && System.nanoTime() < end) {
                for (Consumer<String> consumer : List.of(one, two)) {
                    Message<String> message = consumer.receive(50, TimeUnit.MILLISECONDS);
                    if (message == null) {
                        continue;
                    }
                    count++;
                    Consumer<String> owner = owners.putIfAbsent(message.getKey(), consumer);
                    require(owner == null || owner == consumer, message.getKey() + " at both");
                    byKey.computeIfAbsent(message.getKey(), k -> new ArrayList<>())
                            .add(Integer.valueOf(message.getValue()));
                    consumer.acknowledge(message);
                }
            }
            equal(300, count, "messages");
            equal(2, new java.util.HashSet<>(owners.values()).size(), "consumers with keys");
            for (List<Integer> values : byKey.values()) {
                equal(values.stream().sorted().toList(), values, "order within a key");
            }
        }
    }

    static void keySharedSticky(String topic) throws Exception {
        Range low = Range.of(0, 32767);
        Range high = Range.of(32768, 65535);
        try (Consumer<String> one = consumer(topic, SubscriptionType.Key_Shared)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(low)).subscribe();
                Consumer<String> two = consumer(topic, SubscriptionType.Key_Shared)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(high)).subscribe();
                Producer<String> producer = producer(topic).enableBatching(false).create()) {
            try {
                consumer(topic, SubscriptionType.Key_Shared)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(low))
                        .subscribe().close();
                throw new AssertionError("a range was given twice");
            } catch (PulsarClientException.ConsumerAssignException expected) {
                // As it should be.
            }
            for (int i = 0; i < 40; i++) {
                producer.newMessage().key("key-" + i).value(String.valueOf(i)).send();
            }
            List<String> all = new ArrayList<>();
            for (Consumer<String> consumer : List.of(one, two)) {
                Message<String> message;
                int before = all.size();
                while ((message = consumer.receive(500, TimeUnit.MILLISECONDS)) != null) {
                    all.add(message.getValue());
                    consumer.acknowledge(message);
                }
                require(all.size() > before, "a range of half the hashes got nothing");
            }
            equal(new TreeSet<>(numbers(0, 40)), new TreeSet<>(all), "both ranges together");
            equal(40, all.size(), "messages");
        }
    }

    // ---- Acks --------------------------------------------------------------------------------

    static void batchIndexAcksAcrossUnload(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared).subscribe()) {
            sendBatch(topic, numbers(0, 10));
            List<Message<String>> batch = receive(consumer, 10);
            for (int index : new int[] {0, 3, 7}) {
                consumer.acknowledgeAsync(batch.get(index)).get();
            }
            unload(topic);
            equal(List.of("1", "2", "4", "5", "6", "8", "9"), values(receive(consumer, 7)),
                    "what comes back after the unload");
            nothingMore(consumer);
        }
    }

    static void batchIndexAcksAcrossReconnect(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive).subscribe()) {
            sendBatch(topic, numbers(0, 70));
            List<Message<String>> batch = receive(consumer, 70);
            for (int index = 0; index < 70; index += 2) {
                consumer.acknowledgeAsync(batch.get(index)).get();
            }
        }
        List<String> odd = numbers(0, 70).stream().filter(n -> Integer.parseInt(n) % 2 == 1).toList();
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive).subscribe()) {
            equal(odd, receiveAndAck(consumer, 35), "what the next consumer gets");
        }
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive).subscribe()) {
            nothingMore(consumer);
        }
    }

    static void batchAckedIndexByIndex(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared).subscribe()) {
            sendBatch(topic, numbers(0, 10));
            for (Message<String> message : receive(consumer, 10)) {
                consumer.acknowledgeAsync(message).get();
            }
            unload(topic);
            send(topic, List.of("behind"));
            equal(List.of("behind"), values(receive(consumer, 1)), "what comes after the unload");
        }
    }

    static void cumulativeInsideBatch(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive).subscribe()) {
            send(topic, List.of("before"));
            sendBatch(topic, numbers(0, 10));
            List<Message<String>> all = receive(consumer, 11);
            consumer.acknowledgeCumulativeAsync(all.get(5)).get();
        }
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive).subscribe()) {
            equal(numbers(5, 10), values(receive(consumer, 5)), "what is left of the batch");
            nothingMore(consumer);
        }
    }

    static void acksOfAList(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared).subscribe()) {
            sendBatch(topic, numbers(0, 5));
            send(topic, numbers(5, 10));
            List<Message<String>> all = receive(consumer, 10);
            List<MessageId> ids = new ArrayList<>();
            for (int index : new int[] {1, 2, 6, 8}) {
                ids.add(all.get(index).getMessageId());
            }
            consumer.acknowledgeAsync(ids).get();
            consumer.redeliverUnacknowledgedMessages();
            equal(new TreeSet<>(List.of("0", "3", "4", "5", "7", "9")),
                    new TreeSet<>(values(receive(consumer, 6))), "what is delivered again");
            nothingMore(consumer);
        }
    }

    static void nack(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe()) {
            send(topic, numbers(0, 10));
            for (Message<String> message : receive(consumer, 10)) {
                equal(0, message.getRedeliveryCount(), "redeliveries at first");
                if (List.of("2", "5", "6").contains(message.getValue())) {
                    consumer.negativeAcknowledge(message);
                } else {
                    consumer.acknowledgeAsync(message).get();
                }
            }
            List<Message<String>> again = receive(consumer, 3);
            equal(Set.of("2", "5", "6"), Set.copyOf(values(again)), "what comes again");
            for (Message<String> message : again) {
                equal(1, message.getRedeliveryCount(), "redeliveries");
                consumer.acknowledgeAsync(message).get();
            }
            nothingMore(consumer);
        }
    }

    static void nackInsideBatch(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe()) {
            sendBatch(topic, numbers(0, 6));
            List<Message<String>> batch = receive(consumer, 6);
            for (int index : new int[] {0, 1, 3, 5}) {
                consumer.acknowledgeAsync(batch.get(index)).get();
            }
            consumer.negativeAcknowledge(batch.get(2));
            consumer.negativeAcknowledge(batch.get(4));
            equal(List.of("2", "4"), receiveAndAck(consumer, 2), "what comes again");
            nothingMore(consumer);
        }
    }

    static void ackTimeout(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared)
                .ackTimeout(1, TimeUnit.SECONDS).ackTimeoutTickTime(100, TimeUnit.MILLISECONDS)
                .subscribe()) {
            send(topic, List.of("slow"));
            receive(consumer, 1);
            Message<String> again = receive(consumer, 1).get(0);
            equal("slow", again.getValue(), "what comes again");
            equal(1, again.getRedeliveryCount(), "redeliveries");
            consumer.acknowledgeAsync(again).get();
        }
    }

    static void deadLetter(String topic) throws Exception {
        DeadLetterPolicy policy = DeadLetterPolicy.builder().maxRedeliverCount(2)
                .deadLetterTopic(topic + "-dead").initialSubscriptionName("graves").build();
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS)
                .deadLetterPolicy(policy).subscribe();
                Consumer<String> dead = consumer(topic + "-dead", SubscriptionType.Shared)
                .subscriptionName("graves").subscribe()) {
            send(topic, List.of("poison"));
            for (int i = 0; i < 3; i++) {
                Message<String> message = receive(consumer, 1).get(0);
                equal(i, message.getRedeliveryCount(), "redeliveries");
                consumer.negativeAcknowledge(message);
            }
            // The client looks at the count only when the message comes once more.
            equal(null, consumer.receive(1, TimeUnit.SECONDS), "a fourth delivery");
            equal(List.of("poison"), receiveAndAck(dead, 1), "in the dead letter topic");
        }
    }

    // ---- Kinds of messages -------------------------------------------------------------------

    static void delayed(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Shared).subscribe();
                Producer<String> producer = producer(topic).create()) {
            long due = System.currentTimeMillis() + 1500;
            producer.newMessage().value("later").deliverAt(due).send();
            producer.newMessage().value("latest").deliverAt(due + 500).send();
            producer.newMessage().value("now").send();
            equal(List.of("now"), receiveAndAck(consumer, 1), "first");
            equal(List.of("later"), receiveAndAck(consumer, 1), "second");
            require(System.currentTimeMillis() >= due, "delivered too early");
            equal(List.of("latest"), receiveAndAck(consumer, 1), "third");
            require(System.currentTimeMillis() >= due + 500, "delivered too early");
        }
    }

    static void chunked(String topic) throws Exception {
        byte[] payload = new byte[12 << 20];
        new java.util.Random(1).nextBytes(payload);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic)
                .subscriptionName("s").subscriptionType(SubscriptionType.Shared).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic)
                .enableBatching(false).enableChunking(true).create()) {
            producer.send(payload);
            producer.send(new byte[] {1});
            Message<byte[]> large = consumer.receive(20, TimeUnit.SECONDS);
            require(large != null, "nothing came");
            require(Arrays.equals(payload, large.getValue()), "other bytes came back");
            consumer.acknowledgeAsync(large).get();
            Message<byte[]> small = consumer.receive(20, TimeUnit.SECONDS);
            require(small != null && small.getValue().length == 1, "nothing came behind it");
            consumer.acknowledgeAsync(small).get();
        }
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic)
                .subscriptionName("s").subscriptionType(SubscriptionType.Shared).subscribe()) {
            require(consumer.receive(300, TimeUnit.MILLISECONDS) == null, "a chunk came back");
        }
    }

    static void compression(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe()) {
            for (CompressionType type : CompressionType.values()) {
                String value = (type + " ").repeat(200);
                try (Producer<String> producer = producer(topic).compressionType(type).create()) {
                    producer.send(value);
                }
                equal(List.of(value), receiveAndAck(consumer, 1), "with " + type);
            }
        }
    }

    static void properties(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
                Producer<String> producer = producer(topic).producerName("me").create()) {
            MessageId id = producer.newMessage().key("k").orderingKey(new byte[] {1, 2})
                    .eventTime(123).sequenceId(77).property("a", "b").value("v").send();
            producer.newMessage().value(null).send();
            Message<String> message = receive(consumer, 1).get(0);
            equal("k", message.getKey(), "key");
            equal(123L, message.getEventTime(), "event time");
            equal(77L, message.getSequenceId(), "sequence id");
            equal(Map.of("a", "b"), message.getProperties(), "properties");
            equal("me", message.getProducerName(), "producer name");
            require(Arrays.equals(new byte[] {1, 2}, message.getOrderingKey()), "ordering key");
            require(id.compareTo(message.getMessageId()) == 0, "the receipt has another id");
            equal(null, receive(consumer, 1).get(0).getValue(), "the value of nothing");
        }
    }

    // ---- Readers and seeks -------------------------------------------------------------------

    static void readerSeek(String topic) throws Exception {
        List<MessageId> ids = send(topic, numbers(0, 20));
        try (Reader<String> reader = client.newReader(Schema.STRING).topic(topic)
                .startMessageId(MessageId.earliest).create()) {
            equal(numbers(0, 20), read(reader), "from the earliest");
            reader.seek(ids.get(11));
            equal(numbers(12, 20), read(reader), "behind the twelfth");
            reader.seek(MessageId.earliest);
            equal(numbers(0, 20), read(reader), "from the earliest again");
            reader.seek(MessageId.latest);
            require(!reader.hasMessageAvailable(), "something behind the latest");
            send(topic, List.of("new"));
            equal(List.of("new"), read(reader), "what came after");
            reader.seek(0L);
            equal(21, read(reader).size(), "messages since 1970");
        }
        try (Reader<String> reader = client.newReader(Schema.STRING).topic(topic)
                .startMessageId(ids.get(15)).startMessageIdInclusive().create()) {
            equal("15", reader.readNext(10, TimeUnit.SECONDS).getValue(), "inclusive start");
        }
    }

    static void readerInsideBatch(String topic) throws Exception {
        List<MessageId> ids = sendBatch(topic, numbers(0, 10));
        try (Reader<String> reader = client.newReader(Schema.STRING).topic(topic)
                .startMessageId(ids.get(6)).create()) {
            equal(numbers(7, 10), read(reader), "behind the seventh of the batch");
        }
    }

    static void consumerSeek(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive).subscribe()) {
            List<MessageId> ids = send(topic, numbers(0, 10));
            equal(numbers(0, 10), receiveAndAck(consumer, 10), "at first");
            consumer.seek(ids.get(4));
            equal(numbers(5, 10), receiveAndAck(consumer, 5), "behind the fifth");
            consumer.seek(MessageId.earliest);
            equal(numbers(0, 10), receiveAndAck(consumer, 10), "from the earliest");
        }
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Exclusive)
                .startMessageIdInclusive().subscribe()) {
            List<MessageId> ids = send(topic, numbers(10, 20));
            receiveAndAck(consumer, 10);
            consumer.seek(ids.get(4));
            equal(numbers(14, 20), receiveAndAck(consumer, 6), "from the fifth on");
        }
    }

    static void lastMessageId(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe()) {
            List<MessageId> ids = sendBatch(topic, numbers(0, 3));
            MessageIdAdv last = (MessageIdAdv) consumer.getLastMessageIds().get(0);
            MessageIdAdv sent = (MessageIdAdv) ids.get(2);
            equal(sent.getLedgerId(), last.getLedgerId(), "ledger");
            equal(sent.getEntryId(), last.getEntryId(), "entry");
            equal(2, last.getBatchIndex(), "batch index");
        }
    }

    // ---- Schemas -----------------------------------------------------------------------------

    public static class Person {
        public String name;
        public int age;
    }

    public static class OtherPerson {
        public int name;
        public boolean married;
    }

    static void schemaJson(String topic) throws Exception {
        try (Consumer<Person> consumer = client.newConsumer(Schema.JSON(Person.class)).topic(topic)
                .subscriptionName("typed").subscribe();
                Consumer<GenericRecord> generic = client.newConsumer(Schema.AUTO_CONSUME())
                .topic(topic).subscriptionName("generic").subscribe();
                Producer<Person> producer = client.newProducer(Schema.JSON(Person.class))
                .topic(topic).create()) {
            Person ada = new Person();
            ada.name = "Ada";
            ada.age = 36;
            producer.send(ada);
            Message<Person> message = consumer.receive(10, TimeUnit.SECONDS);
            require(message != null, "nothing came");
            equal("Ada 36", message.getValue().name + " " + message.getValue().age, "the person");
            require(message.getSchemaVersion() != null, "the message has no schema version");
            Message<GenericRecord> record = generic.receive(10, TimeUnit.SECONDS);
            require(record != null, "nothing came to the generic consumer");
            equal("Ada", record.getValue().getField("name"), "a field by its name");
        }
    }

    static void schemaIncompatible(String topic) throws Exception {
        client.newProducer(Schema.JSON(Person.class)).topic(topic).create().close();
        try {
            client.newProducer(Schema.JSON(OtherPerson.class)).topic(topic).create().close();
            throw new AssertionError("a producer with another schema was let in");
        } catch (PulsarClientException.IncompatibleSchemaException expected) {
            // As it should be.
        }
        client.newProducer(Schema.JSON(Person.class)).topic(topic).create().close();
    }

    // ---- Topics ------------------------------------------------------------------------------

    static void partitioned(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "3");
        equal(3, client.getPartitionsForTopic(topic).get().size(), "partitions");
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Shared).subscribe();
                Producer<String> producer = producer(topic).enableBatching(false)
                .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create()) {
            for (String value : numbers(0, 30)) {
                producer.send(value);
            }
            Set<Integer> partitions = new TreeSet<>();
            Set<String> values = new TreeSet<>();
            for (Message<String> message : receive(consumer, 30)) {
                values.add(message.getValue());
                partitions.add(((MessageIdAdv) message.getMessageId()).getPartitionIndex());
                consumer.acknowledge(message);
            }
            equal(new TreeSet<>(numbers(0, 30)), values, "messages of all partitions");
            equal(Set.of(0, 1, 2), partitions, "partitions that they came from");
            nothingMore(consumer);
        }
    }

    static void pattern(String topic) throws Exception {
        send(topic + "-early", List.of("early"));
        try (Consumer<String> consumer = client.newConsumer(Schema.STRING)
                .topicsPattern(Pattern.compile(topic + "-.*")).subscriptionName("s")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscribe()) {
            equal(List.of("early"), receiveAndAck(consumer, 1), "of the topic that was there");
            send(topic + "-late", List.of("late"));
            equal(List.of("late"), receiveAndAck(consumer, 1), "of the topic that came later");
        }
    }

    static void producerExclusive(String topic) throws Exception {
        Producer<String> first = producer(topic).accessMode(ProducerAccessMode.Exclusive).create();
        try {
            producer(topic).accessMode(ProducerAccessMode.Exclusive).create().close();
            throw new AssertionError("a second exclusive producer was let in");
        } catch (PulsarClientException.ProducerFencedException expected) {
            // As it should be.
        }
        CompletableFuture<Producer<String>> waiting = producer(topic)
                .accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
        first.send("one");
        require(!waiting.isDone(), "the waiting producer did not wait");
        first.close();
        try (Producer<String> second = waiting.get(10, TimeUnit.SECONDS)) {
            second.send("two");
        }
    }

    static void producerAcrossUnload(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
                Producer<String> producer = producer(topic).enableBatching(false).create()) {
            List<CompletableFuture<MessageId>> receipts = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                receipts.add(producer.sendAsync(String.valueOf(i)));
                if (i == 250) {
                    unload(topic);
                }
            }
            for (CompletableFuture<MessageId> receipt : receipts) {
                receipt.get(20, TimeUnit.SECONDS);
            }
            // What was under way may come twice without deduplication, but nothing is lost.
            Set<String> seen = new TreeSet<>();
            while (seen.size() < 500) {
                Message<String> message = receive(consumer, 1).get(0);
                seen.add(message.getValue());
                consumer.acknowledge(message);
            }
        }
    }

    static void terminated(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
                Producer<String> producer = producer(topic).create()) {
            producer.send("last");
            rest("POST", path(topic) + "/terminate", "");
            try {
                producer.send("too late");
                throw new AssertionError("a terminated topic took a message");
            } catch (PulsarClientException.TopicTerminatedException
                    | PulsarClientException.AlreadyClosedException expected) {
                // As it should be.
            }
            equal(List.of("last"), receiveAndAck(consumer, 1), "the last message");
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
            while (!consumer.hasReachedEndOfTopic()) {
                require(System.nanoTime() < end, "the consumer was not told of the end");
                Thread.sleep(20);
            }
        }
    }

    static void nonPersistent(String topic) throws Exception {
        String name = topic.replace("persistent://", "non-persistent://");
        try (Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(name)
                .subscriptionName("s").subscriptionType(SubscriptionType.Shared).subscribe()) {
            send(name, numbers(0, 20));
            equal(numbers(0, 20), receiveAndAck(consumer, 20), "messages in order");
        }
    }

    static void unsubscribe(String topic) throws Exception {
        try (Consumer<String> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe()) {
            send(topic, numbers(0, 3));
            receive(consumer, 1);
            consumer.unsubscribe();
        }
        require(!rest("GET", path(topic) + "/subscriptions", "").contains("\"s\""),
                "the subscription is still there");
    }

    static void acksAcrossRestart1(String topic) throws Exception {
        Consumer<String> consumer = exact(topic, SubscriptionType.Shared).subscribe();
        sendBatch(topic, numbers(0, 10));
        send(topic, numbers(10, 20));
        List<Message<String>> all = receive(consumer, 20);
        for (int index : new int[] {0, 1, 5, 9, 11, 13, 19}) {
            consumer.acknowledgeAsync(all.get(index)).get();
        }
    }

    static void acksAcrossRestart2(String topic) throws Exception {
        try (Consumer<String> consumer = exact(topic, SubscriptionType.Shared).subscribe()) {
            equal(List.of("2", "3", "4", "6", "7", "8", "10", "12", "14", "15", "16", "17", "18"),
                    values(receive(consumer, 13)), "what was not acked before");
            nothingMore(consumer);
        }
    }

    // ---- Words for the checks ----------------------------------------------------------------

    static ConsumerBuilder<String> consumer(String topic, SubscriptionType type) {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName("s")
                .subscriptionType(type)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    /** A consumer whose acks go out at once, to the message, and are answered. */
    static ConsumerBuilder<String> exact(String topic, SubscriptionType type) {
        return consumer(topic, type).enableBatchIndexAcknowledgment(true)
                .isAckReceiptEnabled(true).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS);
    }

    static ProducerBuilder<String> producer(String topic) {
        return client.newProducer(Schema.STRING).topic(topic);
    }

    /** Sends one entry for each value. */
    static List<MessageId> send(String topic, List<String> values) throws Exception {
        try (Producer<String> producer = producer(topic).enableBatching(false).create()) {
            return sendAll(producer, values);
        }
    }

    /** Sends all values in one entry. */
    static List<MessageId> sendBatch(String topic, List<String> values) throws Exception {
        try (Producer<String> producer = producer(topic).batchingMaxMessages(values.size() + 1)
                .batchingMaxPublishDelay(1, TimeUnit.MINUTES).create()) {
            return sendAll(producer, values);
        }
    }

    static List<MessageId> sendAll(Producer<String> producer, List<String> values)
            throws Exception {
        List<CompletableFuture<MessageId>> receipts = new ArrayList<>();
        for (String value : values) {
            receipts.add(producer.sendAsync(value));
        }
        producer.flush();
        List<MessageId> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> receipt : receipts) {
            ids.add(receipt.get(10, TimeUnit.SECONDS));
        }
        return ids;
    }

    static List<Message<String>> receive(Consumer<String> consumer, int count) throws Exception {
        List<Message<String>> out = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message<String> message = consumer.receive(10, TimeUnit.SECONDS);
            require(message != null, "only " + i + " of " + count + " came: " + values(out));
            out.add(message);
        }
        return out;
    }

    static List<String> receiveAndAck(Consumer<String> consumer, int count) throws Exception {
        List<Message<String>> messages = receive(consumer, count);
        for (Message<String> message : messages) {
            consumer.acknowledgeAsync(message).get(10, TimeUnit.SECONDS);
        }
        return values(messages);
    }

    static void nothingMore(Consumer<String> consumer) throws Exception {
        Message<String> message = consumer.receive(300, TimeUnit.MILLISECONDS);
        require(message == null, "too much came: " + (message == null ? "" : message.getValue()));
    }

    static List<String> read(Reader<String> reader) throws Exception {
        List<String> out = new ArrayList<>();
        while (reader.hasMessageAvailable()) {
            Message<String> message = reader.readNext(10, TimeUnit.SECONDS);
            require(message != null, "announced, but only these came: " + out);
            out.add(message.getValue());
        }
        return out;
    }

    static List<String> values(List<Message<String>> messages) {
        return messages.stream().map(Message::getValue).toList();
    }

    static List<String> numbers(int first, int end) {
        List<String> out = new ArrayList<>();
        for (int i = first; i < end; i++) {
            out.add(String.valueOf(i));
        }
        return out;
    }

    static String path(String topic) {
        return "/admin/v2/" + topic.replace("://", "/");
    }

    static void unload(String topic) throws Exception {
        rest("PUT", path(topic) + "/unload", "");
    }

    static String rest(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(httpUrl + path))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = HttpClient.newHttpClient()
                .send(request, HttpResponse.BodyHandlers.ofString());
        require(answer.statusCode() / 100 == 2,
                method + " " + path + ": " + answer.statusCode() + " " + answer.body());
        return answer.body();
    }

    static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void equal(Object expected, Object actual, String what) {
        require(java.util.Objects.equals(expected, actual),
                what + ": expected " + expected + ", got " + actual);
    }
}
