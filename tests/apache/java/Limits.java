import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * Rates and limits, with Apache Pulsar's Java client.
 *
 * <pre>
 * Limits.java CHECK URL HTTP_URL TOPIC
 * </pre>
 *
 * <p>TOPIC is `tenant/namespace/name`, and there. Prints "ok", or why not. Of times only the least that something must
 * take is looked at: what is more is the machine's.
 */
public class Limits {
    static final int RATE = 50;
    static final int COUNT = 120;
    /** What is there at once is one second's worth; a little less, for the clocks of two processes. */
    static final double LEAST_S = (double) (COUNT - RATE) / RATE - 0.1;

    static String httpUrl;
    static String topic;

    public static void main(String[] told) throws Exception {
        httpUrl = told[2];
        topic = told[3];
        try (PulsarClient client = client(told[1])) {
            switch (told[0]) {
                case "publish" -> publish(client);
                case "dispatch" -> dispatch(client);
                case "again" -> again(client);
                case "producers" -> producers(client);
                case "consumers" -> consumers(client);
                case "subscriptions" -> subscriptions(client);
                case "neighbour" -> neighbour(client, told[1]);
                default -> throw new AssertionError(told[0]);
            }
        }
        System.out.println("ok");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    // ---- Rates ---------------------------------------------------------------------------

    static void publish(PulsarClient client) throws Exception {
        set("publishRate", "{\"publishThrottlingRateInMsg\":" + RATE + "}");
        long begun = System.nanoTime();
        send(client, topic, COUNT);
        atLeast(LEAST_S, begun);
        receive(client, COUNT);
    }

    static void dispatch(PulsarClient client) throws Exception {
        send(client, topic, COUNT);
        set("dispatchRate", "{\"dispatchThrottlingRateInMsg\":" + RATE + ",\"ratePeriodInSecond\":1}");
        long begun = System.nanoTime();
        receive(client, COUNT);
        atLeast(LEAST_S, begun);
    }

    /** What is delivered again is held to the rate like all else. */
    static void again(PulsarClient client) throws Exception {
        send(client, topic, RATE);
        try (Consumer<String> consumer = consumer(client, "s").negativeAckRedeliveryDelay(1, TimeUnit.MILLISECONDS)
                .subscribe()) {
            List<Message<String>> first = take(consumer, RATE);
            set("dispatchRate", "{\"dispatchThrottlingRateInMsg\":" + RATE / 5 + ",\"ratePeriodInSecond\":1}");
            long begun = System.nanoTime();
            first.forEach(consumer::negativeAcknowledge);
            List<String> found = new ArrayList<>(take(consumer, RATE).stream().map(Message::getValue).toList());
            atLeast(3.9, begun);
            found.sort((a, b) -> Integer.compare(Integer.parseInt(a), Integer.parseInt(b)));
            equal(numbers(RATE), found);
        }
    }

    // ---- Limits --------------------------------------------------------------------------

    static void producers(PulsarClient client) throws Exception {
        set("maxProducers", "1");
        Producer<String> one = client.newProducer(Schema.STRING).topic(topic).create();
        refused(PulsarClientException.ProducerBusyException.class,
                () -> client.newProducer(Schema.STRING).topic(topic).create());
        one.send("0");
        one.close();
        client.newProducer(Schema.STRING).topic(topic).create().close();
    }

    static void consumers(PulsarClient client) throws Exception {
        set("maxConsumers", "1");
        Consumer<String> one = consumer(client, "s").subscribe();
        refused(PulsarClientException.ConsumerBusyException.class, () -> consumer(client, "s").subscribe());
        send(client, topic, 1);
        take(one, 1);
        one.close();
        consumer(client, "s").subscribe().close();
    }

    static void subscriptions(PulsarClient client) throws Exception {
        set("maxSubscriptionsPerTopic", "1");
        Consumer<String> one = consumer(client, "s").subscribe();
        refused(PulsarClientException.NotAllowedException.class, () -> consumer(client, "t").subscribe());
        send(client, topic, 1);
        take(one, 1);
        one.unsubscribe();
        consumer(client, "t").subscribe().close();
    }

    // ---- Another tenant ------------------------------------------------------------------

    /** One that waits has half a minute before it; another tenant is done before it gets on. */
    static void neighbour(PulsarClient client, String url) throws Exception {
        set("publishRate", "{\"publishThrottlingRateInMsg\":1}");
        List<CompletableFuture<MessageId>> waiting = new ArrayList<>();
        try (Producer<String> slow = client.newProducer(Schema.STRING).topic(topic).enableBatching(false)
                .sendTimeout(0, TimeUnit.SECONDS).create(); PulsarClient free = client(url)) {
            for (int i = 0; i < 30; i++) {
                waiting.add(slow.sendAsync("" + i));
            }
            String other = topic.replace("loud", "quiet");
            send(free, other, 1000);
            try (Consumer<String> consumer = free.newConsumer(Schema.STRING).topic(other).subscriptionName("s")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                take(consumer, 1000);
            }
            if (waiting.stream().allMatch(CompletableFuture::isDone)) {
                throw new AssertionError("nobody was held up");
            }
            set("publishRate", "{\"publishThrottlingRateInMsg\":-1}");
            for (CompletableFuture<MessageId> one : waiting) {
                one.get(60, TimeUnit.SECONDS);
            }
        }
        receive(client, 30);
    }

    // ---- What they share -----------------------------------------------------------------

    static PulsarClient client(String url) throws Exception {
        return PulsarClient.builder().serviceUrl(url).operationTimeout(20, TimeUnit.SECONDS).build();
    }

    static void send(PulsarClient client, String topic, int count) throws Exception {
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).enableBatching(false)
                .blockIfQueueFull(true).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.sendAsync("" + i));
            }
            for (CompletableFuture<MessageId> one : sent) {
                one.get(60, TimeUnit.SECONDS);
            }
        }
    }

    /** All that was sent, each once and in its order. */
    static void receive(PulsarClient client, int count) throws Exception {
        try (Consumer<String> consumer = consumer(client, "all").subscribe()) {
            equal(numbers(count), take(consumer, count).stream().map(Message::getValue).toList());
            if (consumer.receive(0, TimeUnit.MILLISECONDS) != null) {
                throw new AssertionError("something came twice");
            }
        }
    }

    static org.apache.pulsar.client.api.ConsumerBuilder<String> consumer(PulsarClient client, String name) {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName(name)
                .subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    static List<Message<String>> take(Consumer<String> consumer, int count) throws Exception {
        List<Message<String>> found = new ArrayList<>();
        while (found.size() < count) {
            Message<String> message = consumer.receive(60, TimeUnit.SECONDS);
            if (message == null) {
                throw new AssertionError(found.size() + " of " + count + " came");
            }
            found.add(message);
        }
        return found;
    }

    static List<String> numbers(int count) {
        List<String> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            found.add("" + i);
        }
        return found;
    }

    static void refused(Class<? extends Exception> expected, Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (PulsarClientException error) {
            equal(expected, error.getClass());
            return;
        }
        throw new AssertionError("it was let in");
    }

    static void atLeast(double seconds, long begun) {
        double took = (System.nanoTime() - begun) / 1e9;
        if (took < seconds) {
            throw new AssertionError("it took " + took + " s");
        }
    }

    static void set(String policy, String body) throws Exception {
        URI path = URI.create(httpUrl + "/admin/v2/persistent/" + topic + "/" + policy);
        HttpResponse<String> answer = HttpClient.newHttpClient().send(
                HttpRequest.newBuilder(path).header("Content-Type", "application/json")
                        .POST(HttpRequest.BodyPublishers.ofString(body)).build(),
                HttpResponse.BodyHandlers.ofString());
        equal(204, answer.statusCode());
    }

    static void equal(Object expected, Object found) {
        if (!java.util.Objects.equals(expected, found)) {
            throw new AssertionError(found + ", and not " + expected);
        }
    }
}
