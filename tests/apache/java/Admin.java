import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

/**
 * pulsar-admin, as often as it is wanted, in one JVM.
 *
 * <p>Arguments: the URL of admin REST, that of the broker, and a file with a command in each line, whose words are
 * parted by tabs. For each command a line is printed: whether it went well, and what it said, in base64.
 */
public class Admin {

    static class Tool extends PulsarAdminTool {

        Tool(Properties properties) throws Exception {
            super(properties);
            allowSystemExit = false;
        }

        boolean go(String[] arguments) {
            return run(arguments);
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("webServiceUrl", args[0]);
        properties.setProperty("brokerServiceUrl", args[1]);
        PrintStream out = System.out;
        // Whoever has taken hold of a stream keeps it, so it is the same one for all commands.
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream capture = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        Tool tool = new Tool(properties);
        for (String line : Files.readAllLines(Path.of(args[2]))) {
            said.reset();
            boolean well = tool.go(line.split("\t"));
            capture.flush();
            out.println(well + " " + Base64.getEncoder().encodeToString(said.toByteArray()));
        }
        out.flush();
        Runtime.getRuntime().halt(0); // clients of the tool have threads that would linger
    }
}
