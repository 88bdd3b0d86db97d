import java.io.File;
import java.lang.annotation.Annotation;
import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.net.URL;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import javax.ws.rs.DELETE;
import javax.ws.rs.GET;
import javax.ws.rs.POST;
import javax.ws.rs.PUT;
import javax.ws.rs.Path;
import javax.ws.rs.PathParam;
import javax.ws.rs.QueryParam;
import javax.ws.rs.HeaderParam;
import javax.ws.rs.container.Suspended;

/**
 * The operations of Pulsar's admin REST, one in each line: method, path, query parameters, and the class of the body.
 *
 * <p>They are read from the resources of the broker's jar, whose annotations are what Pulsar's Swagger is made of.
 */
public class Operations {

    static final Class<?>[] VERBS = {GET.class, PUT.class, POST.class, DELETE.class};

    public static void main(String[] args) throws Exception {
        TreeSet<String> found = new TreeSet<>();
        for (String jar : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!new File(jar).getName().matches("(.*\\.)?pulsar-broker-[0-9].*\\.jar")) continue;
            try (JarFile file = new JarFile(jar)) {
                for (Enumeration<JarEntry> e = file.entries(); e.hasMoreElements();) {
                    String name = e.nextElement().getName();
                    if (!name.startsWith("org/apache/pulsar/broker/") || !name.endsWith(".class")) continue;
                    Class<?> c;
                    try {
                        c = Class.forName(name.replace('/', '.').replaceAll("\\.class$", ""), false, Operations.class.getClassLoader());
                    } catch (Throwable t) {
                        continue;
                    }
                    resource(c, found);
                }
            }
        }
        for (String line : found) System.out.println(line);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static void resource(Class<?> c, TreeSet<String> found) {
        Path at = c.getAnnotation(Path.class);
        if (at == null) return;
        for (Method m : c.getMethods()) {
            Path below = m.getAnnotation(Path.class);
            String verb = null;
            for (Class<?> v : VERBS) {
                @SuppressWarnings("unchecked")
                Annotation a = m.getAnnotation((Class<? extends Annotation>) v);
                if (a != null) verb = v.getSimpleName();
            }
            if (verb == null) continue;
            String path = "/" + at.value() + "/" + (below == null ? "" : below.value());
            path = path.replaceAll("/+", "/").replaceAll("\\{([A-Za-z]+)\\s*:[^}]*\\}", "{$1}").replaceAll("/$", "");
            List<String> query = new ArrayList<>();
            String body = "-";
            for (Parameter p : m.getParameters()) {
                QueryParam q = p.getAnnotation(QueryParam.class);
                if (q != null) query.add(q.value());
                else if (p.getAnnotations().length == 0 || onlyApi(p)) body = p.getParameterizedType().getTypeName();
            }
            found.add(c.getName().replace("org.apache.pulsar.broker.", "") + "\t" + verb + "\t" + path + "\t" + String.join(",", query) + "\t" + body + "\t" + m.getName());
        }
    }

    static boolean onlyApi(Parameter p) {
        for (Annotation a : p.getAnnotations()) {
            if (a.annotationType().getName().startsWith("javax.ws.rs")) return false;
        }
        return true;
    }
}
