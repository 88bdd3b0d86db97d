// The worker of transaction_worker.py with Apache Pulsar's own client: URL TOPIC.

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

public class TransactionWorker {
    static final int TIMEOUT_S = 5;
    static final int THREADS = 16;
    static final double FAILS = 0.02;

    public static void main(String[] words) throws Exception {
        String topic = words[1];
        PulsarClient client = PulsarClient.builder()
            .serviceUrl(words[0])
            .enableTransaction(true)
            .startingBackoffInterval(20, TimeUnit.MILLISECONDS)
            .maxBackoffInterval(500, TimeUnit.MILLISECONDS)
            .build();
        Producer<byte[]> a = producer(client, topic + "-a");
        Producer<byte[]> b = producer(client, topic + "-b");
        Consumer<byte[]> consumer = client.newConsumer()
            .topic(topic)
            .subscriptionName("work")
            .subscriptionType(SubscriptionType.Shared)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
            .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
            .enableBatchIndexAcknowledgment(true)
            .receiverQueueSize(200)
            .subscribe();
        for (int at = 0; at < THREADS; at++) {
            new Thread(() -> serve(client, a, b, consumer)).start();
        }
    }

    static Producer<byte[]> producer(PulsarClient client, String topic) throws Exception {
        // In a transaction a send may not time out by itself.
        return client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS).create();
    }

    static void serve(
        PulsarClient client, Producer<byte[]> a, Producer<byte[]> b, Consumer<byte[]> consumer
    ) {
        while (true) {
            Message<byte[]> message = null;
            Transaction txn = null;
            try {
                message = consumer.receive();
                txn = client.newTransaction()
                    .withTransactionTimeout(TIMEOUT_S, TimeUnit.SECONDS).build().get();
                CompletableFuture<?> first = a.newMessage(txn).value(message.getValue()).sendAsync();
                b.newMessage(txn).value(message.getValue()).sendAsync().get();
                first.get();
                if (ThreadLocalRandom.current().nextDouble() < FAILS) {
                    throw new IllegalStateException("not this time");
                }
                consumer.acknowledgeAsync(message.getMessageId(), txn).get();
                txn.commit().get();
            } catch (Throwable problem) {
                giveBack(consumer, message, txn);
            }
        }
    }

    static void giveBack(Consumer<byte[]> consumer, Message<byte[]> message, Transaction txn) {
        if (txn != null) {
            try {
                txn.abort().get();
            } catch (Throwable ended) {
                // It has ended, or will by its timeout; the broker knows how.
            }
        }
        if (message != null) {
            consumer.negativeAcknowledge(message);
        }
    }
}
