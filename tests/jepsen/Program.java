import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/**
 * A program of the Java client: role.py says what its words mean, fact_file.py what it writes.
 *
 * <pre>java -cp ... Program NAME URL FACT_FILE STOP_FILE ROLE...</pre>
 *
 * Acks have receipts: the client tells when the broker confirmed one.
 */
public class Program {
    static final int STRIDE = 10;
    static final int NACK_EVERY = 33;
    static final int IDLE_MS = 1000;
    static final int AGAIN_MS = 300;

    static String name;
    static Facts facts;
    static Path stop;
    static PulsarClient client;

    public static void main(String[] words) throws Exception {
        name = words[0];
        facts = new Facts(words[2]);
        stop = Path.of(words[3]);
        client = PulsarClient.builder().serviceUrl(words[1]).ioThreads(1).listenerThreads(1)
                .operationTimeout(10, TimeUnit.SECONDS)
                .startingBackoffInterval(100, TimeUnit.MILLISECONDS)
                .maxBackoffInterval(2, TimeUnit.SECONDS).build();
        List<Thread> threads = new ArrayList<>();
        for (int i = 4; i < words.length; i++) {
            String[] role = words[i].split(":");
            Thread thread = new Thread(() -> play(role));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    static String full(String topic) {
        return "persistent://public/default/" + topic;
    }

    /** What fails is done again, as another producer or consumer. */
    static void play(String[] role) {
        boolean consumes = role[0].equals("consume");
        for (int life = 0; consumes || !Files.exists(stop); life++) {
            String called = name + "/" + role[1] + "/" + life;
            try {
                if (consumes) {
                    consume(called, role[1], role[2], role[3]);
                } else {
                    double rate = Double.parseDouble(role[2]);
                    produce(called, role[1], rate, Integer.parseInt(role[3]));
                }
            } catch (PulsarClientException error) {
                System.err.println(called + ": " + error);
                pause(AGAIN_MS);
            }
        }
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void produce(String called, String topic, double rate, int keys)
            throws PulsarClientException {
        Producer<byte[]> producer = client.newProducer().topic(full(topic)).producerName(called)
                .sendTimeout(20, TimeUnit.SECONDS).blockIfQueueFull(true).enableBatching(true)
                .batcherBuilder(BatcherBuilder.KEY_BASED)
                .batchingMaxPublishDelay(50, TimeUnit.MILLISECONDS).create();
        AtomicBoolean failed = new AtomicBoolean();
        Random random = new Random(called.hashCode());
        try (producer) {
            for (int n = 0; !Files.exists(stop) && !failed.get(); n++) {
                int number = n;
                String key = keys > 0 ? "k" + random.nextInt(keys) : "";
                String payload = called + ":" + number + ":" + "x".repeat(random.nextInt(300));
                facts.add("Sent", text(called), number, text(full(topic)), text(payload),
                        text(key), false);
                TypedMessageBuilder<byte[]> message = producer.newMessage()
                        .value(payload.getBytes(StandardCharsets.UTF_8));
                if (!key.isEmpty()) {
                    message = message.key(key);
                }
                message.sendAsync().whenComplete((id, error) -> {
                    if (error == null) {
                        facts.add("Stored", text(called), number, place(id), -1, false);
                    } else {
                        facts.add("SendFailed", text(called), number, kind(error));
                        failed.set(true);
                    }
                });
                pause((long) (1000 / rate));
            }
            producer.flush();
        }
    }

    static void consume(String called, String topic, String subscription, String type)
            throws PulsarClientException {
        SubscriptionType kind = SubscriptionType.valueOf(
                type.equals("KeyShared") ? "Key_Shared" : type);
        Consumer<byte[]> consumer = client.newConsumer().topic(full(topic))
                .subscriptionName(subscription).subscriptionType(kind)
                .consumerName(name.substring(0, name.indexOf('.')))
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .isAckReceiptEnabled(true).enableBatchIndexAcknowledgment(true)
                .ackTimeout(10, TimeUnit.SECONDS)
                .negativeAckRedeliveryDelay(300, TimeUnit.MILLISECONDS)
                .receiverQueueSize(100).subscribe();
        facts.add("Opened", text(called), text(subscription), text(type), true, false);
        try (consumer) {
            new Handler(consumer, called, subscription,
                    type.equals("Exclusive") || type.equals("Failover")).run();
        }
    }

    static class Handler {
        final Consumer<byte[]> consumer;
        final String called;
        final String subscription;
        final boolean cumulative;
        int asked;

        Handler(Consumer<byte[]> consumer, String called, String subscription,
                boolean cumulative) {
            this.consumer = consumer;
            this.called = called;
            this.subscription = subscription;
            this.cumulative = cumulative;
        }

        void run() throws PulsarClientException {
            Message<byte[]> last = null;
            for (int count = 1;;) {
                Message<byte[]> message = consumer.receive(IDLE_MS, TimeUnit.MILLISECONDS);
                if (message != null) {
                    count++;
                    note(message);
                    last = message;
                }
                if (cumulative) {
                    if (last != null && (message == null || count % STRIDE == 0)
                            && ack(last)) {
                        last = null;
                    }
                } else if (message != null) {
                    boolean refused = message.getRedeliveryCount() == 0 && count % NACK_EVERY == 0;
                    if (refused || !ack(message)) {
                        facts.add("Nacked", text(called), text(subscription),
                                place(message.getMessageId()), false);
                        consumer.negativeAcknowledge(message);
                    }
                }
            }
        }

        void note(Message<byte[]> message) {
            MessageIdAdv id = (MessageIdAdv) message.getMessageId();
            String payload = new String(message.getData(), StandardCharsets.UTF_8);
            String key = message.hasKey() ? message.getKey() : "";
            facts.add("Received", text(called), text(subscription), text(message.getTopicName()),
                    place(id), Math.max(id.getBatchSize(), 0), text(payload), text(key),
                    message.getRedeliveryCount());
        }

        boolean ack(Message<byte[]> message) {
            int number = asked++;
            MessageId id = message.getMessageId();
            facts.add("AckAsked", text(called), text(subscription), number, "[" + place(id) + "]",
                    cumulative, text(message.getTopicName()));
            try {
                if (cumulative) {
                    consumer.acknowledgeCumulativeAsync(id).get(20, TimeUnit.SECONDS);
                } else {
                    consumer.acknowledgeAsync(id).get(20, TimeUnit.SECONDS);
                }
            } catch (Exception error) {
                facts.add("AckFailed", text(called), number, kind(error));
                return false;
            }
            facts.add("AckKept", text(called), number);
            return true;
        }
    }

    static String kind(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return text(cause.getClass().getSimpleName());
    }

    static String place(MessageId id) {
        MessageIdAdv of = (MessageIdAdv) id;
        return "[" + of.getLedgerId() + "," + of.getEntryId() + "," + of.getBatchIndex() + "]";
    }

    /** Names and payloads of these programs have nothing that JSON would want escaped. */
    static String text(String value) {
        return "\"" + value + "\"";
    }

    /** One line for each fact, given to the kernel by one write. */
    static class Facts {
        final FileOutputStream file;

        Facts(String path) throws IOException {
            file = new FileOutputStream(path, true);
        }

        synchronized void add(String kind, Object... values) {
            StringBuilder line = new StringBuilder("[" + System.nanoTime() + ",\"" + kind + "\"");
            for (Object value : values) {
                line.append(',').append(value);
            }
            try {
                file.write(line.append("]\n").toString().getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
