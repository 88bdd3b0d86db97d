import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Authentication;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.impl.auth.AuthenticationBasic;
import org.apache.pulsar.client.impl.auth.oauth2.AuthenticationFactoryOAuth2;

/**
 * Compacted topics and ways in, with Apache Pulsar's Java client.
 *
 * <pre>
 * Ways.java compacted URL HTTP_URL
 * Ways.java basic URL USER PASSWORD TOPIC
 * Ways.java token URL TOKEN TOPIC
 * Ways.java oauth2 URL ISSUER CREDENTIALS_FILE AUDIENCE CA_FILE TOPIC
 * </pre>
 *
 * Prints "ok", or "refused" and why if it is not let in.
 */
public class Ways {
    static final int KEYS = 7;
    static final int COUNT = 60;

    public static void main(String[] told) throws Exception {
        try {
            switch (told[0]) {
                case "compacted" -> compacted(told[1], told[2]);
                case "basic" -> exchange(told[1], basic(told[2], told[3]), told[4]);
                case "token" -> exchange(told[1], AuthenticationFactory.token(told[2]), told[3]);
                default -> exchange(told[1], oauth2(told), told[6]);
            }
            System.out.println("ok");
        } catch (PulsarClientException refused) {
            System.out.println("refused " + refused.toString().replaceAll("\\s+", " "));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    // ---- Who somebody is -----------------------------------------------------------------

    static Authentication basic(String user, String password) throws Exception {
        AuthenticationBasic basic = new AuthenticationBasic();
        basic.configure("{\"userId\":\"" + user + "\",\"password\":\"" + password + "\"}");
        return basic;
    }

    static Authentication oauth2(String[] told) throws Exception {
        trust(told[5]);
        URL credentials = Path.of(told[3]).toUri().toURL();
        return AuthenticationFactoryOAuth2.clientCredentials(new URL(told[2]), credentials, told[4]);
    }

    /** The issuer's certificate is of our own authority, which Java does not know. */
    static void trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream pem = new FileInputStream(file)) {
            Certificate authority = CertificateFactory.getInstance("X.509").generateCertificate(pem);
            store.setCertificateEntry("authority", authority);
        }
        Path kept = Files.createTempFile("trust", ".p12");
        try (FileOutputStream out = new FileOutputStream(kept.toFile())) {
            store.store(out, "changeit".toCharArray());
        }
        kept.toFile().deleteOnExit();
        System.setProperty("javax.net.ssl.trustStore", kept.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
    }

    /** A message there and back. */
    static void exchange(String url, Authentication who, String topic) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).authentication(who)
                .operationTimeout(15, TimeUnit.SECONDS).build();
                Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(topic)
                .subscriptionName("s").subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic(topic)
                .create()) {
            producer.send("hello");
            Message<String> message = consumer.receive(30, TimeUnit.SECONDS);
            equal("hello", message == null ? null : message.getValue(), "what comes back");
            consumer.acknowledgeAsync(message).get();
        }
    }

    // ---- Compaction ------------------------------------------------------------------------

    static void compacted(String url, String httpUrl) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build()) {
            for (boolean batching : new boolean[] {true, false}) {
                String name = "compacted-" + batching;
                String topic = "persistent://public/default/" + name;
                publish(client, topic, batching, 0);
                compact(httpUrl, name);
                equal(expected(0), read(client, topic), "what a reader gets of " + name);
                equal(expected(0), viewed(client, topic), "what a table view has of " + name);
                consumeOn(client, topic, batching);
            }
        }
    }

    /** Messages of seven keys, of which one is taken away at the end. */
    static void publish(PulsarClient client, String topic, boolean batching, int first)
            throws Exception {
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic)
                .enableBatching(batching).batchingMaxPublishDelay(1, TimeUnit.SECONDS).create()) {
            for (int i = first; i < first + COUNT; i++) {
                producer.newMessage().key("k" + i % KEYS).value("v" + i).sendAsync();
            }
            producer.newMessage().key("k0").value(null).sendAsync();
            producer.flush();
        }
    }

    static Map<String, String> expected(int first) {
        Map<String, String> last = new HashMap<>();
        for (int i = first; i < first + COUNT; i++) {
            last.put("k" + i % KEYS, "v" + i);
        }
        last.remove("k0");
        return last;
    }

    static Map<String, String> read(PulsarClient client, String topic) throws Exception {
        Map<String, String> found = new HashMap<>();
        try (Reader<String> reader = client.newReader(Schema.STRING).topic(topic)
                .startMessageId(MessageId.earliest).readCompacted(true).create()) {
            while (reader.hasMessageAvailable()) {
                Message<String> message = reader.readNext(30, TimeUnit.SECONDS);
                equal(null, found.put(message.getKey(), message.getValue()), "of one key before");
            }
        }
        return found;
    }

    static Map<String, String> viewed(PulsarClient client, String topic) throws Exception {
        try (TableView<String> view = client.newTableView(Schema.STRING).topic(topic).create()) {
            Map<String, String> found = new HashMap<>();
            view.forEach(found::put);
            return found;
        }
    }

    /** A consumer reads the view, acknowledges it, and goes on in the topic. */
    static void consumeOn(PulsarClient client, String topic, boolean batching) throws Exception {
        try (Consumer<String> consumer = consumer(client, topic)) {
            Map<String, String> found = new HashMap<>();
            Message<String> last = null;
            for (int i = 0; i < KEYS - 1; i++) {
                last = consumer.receive(30, TimeUnit.SECONDS);
                found.put(last.getKey(), last.getValue());
            }
            equal(expected(0), found, "what a consumer gets");
            consumer.acknowledgeCumulativeAsync(last).get();
        }
        publish(client, topic, batching, 1000);
        try (Consumer<String> consumer = consumer(client, topic)) {
            for (int i = 1000; i < 1000 + COUNT; i++) {
                Message<String> message = consumer.receive(30, TimeUnit.SECONDS);
                equal("v" + i, message == null ? null : message.getValue(), "what follows");
            }
        }
    }

    static Consumer<String> consumer(PulsarClient client, String topic) throws Exception {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName("s")
                .readCompacted(true).isAckReceiptEnabled(true)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    static void compact(String httpUrl, String name) throws Exception {
        URI path = URI.create(httpUrl + "/admin/v2/persistent/public/default/" + name
                + "/compaction");
        HttpClient http = HttpClient.newHttpClient();
        http.send(HttpRequest.newBuilder(path).PUT(HttpRequest.BodyPublishers.noBody()).build(),
                HttpResponse.BodyHandlers.discarding());
        String status = "";
        while (!status.contains("SUCCESS")) {
            if (status.contains("ERROR")) {
                throw new AssertionError(status);
            }
            Thread.sleep(50);
            status = http.send(HttpRequest.newBuilder(path).build(),
                    HttpResponse.BodyHandlers.ofString()).body();
        }
    }

    static void equal(Object expected, Object found, String what) {
        if (!java.util.Objects.equals(expected, found)) {
            throw new AssertionError(what + ": " + found + ", and not " + expected);
        }
    }
}
