import java.io.BufferedWriter;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * Writes what Kafka's Raft client does, as lines of JSON: -javaagent:JAR=FILE[,BYTES].
 *
 * Each message for the log has a line, whatever the log level; so has each change of the state, between two steps. The
 * state before a step is the last one before its lines, and the state after it is the next one. Nothing is written past
 * BYTES.
 */
public final class ObservingAgent {
    private static final long MOST_BYTES = 1L << 30;
    private static final Map<String, Method> METHODS = new ConcurrentHashMap<>();
    private static final Map<String, Field> FIELDS = new ConcurrentHashMap<>();

    private static BufferedWriter out;
    private static long left = MOST_BYTES;
    private static long count;
    private static String last = "";
    private static Method format;

    public static void premain(String arguments, Instrumentation instrumentation) throws IOException {
        String[] words = arguments.split(",", 2);
        out = Files.newBufferedWriter(Path.of(words[0]), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        left = words.length > 1 ? Long.parseLong(words[1]) : MOST_BYTES;
        AgentBuilder builder = new AgentBuilder.Default().disableClassFormatChanges()
            .with(AgentBuilder.Listener.StreamWriting.toSystemError().withErrorsOnly());
        ElementMatcher<MethodDescription> levels = ElementMatchers.<MethodDescription>namedOneOf(
            "trace", "debug", "info", "warn", "error").and(ElementMatchers.takesArgument(0, String.class));
        builder = on(builder, ElementMatchers.nameEndsWith(".LogContext$LocationAwareKafkaLogger")
            .or(ElementMatchers.nameEndsWith(".LogContext$LocationIgnorantKafkaLogger")), levels, Log.class);
        builder = on(builder, ElementMatchers.named("org.apache.logging.slf4j.Log4jLogger"), levels, Log.class);
        ElementMatcher<TypeDescription> client = ElementMatchers.named("org.apache.kafka.raft.KafkaRaftClient");
        builder = on(builder, client, ElementMatchers.named("initialize"), After.class);
        builder = on(builder, client, ElementMatchers.named("handleInboundMessage"), Around.class);
        builder = on(builder, client, ElementMatchers.named("poll").and(ElementMatchers.takesNoArguments()), After.class);
        builder.installOn(instrumentation);
    }

    private static AgentBuilder on(AgentBuilder builder, ElementMatcher<? super TypeDescription> type,
            ElementMatcher<? super MethodDescription> method, Class<?> advice) {
        return builder.type(type).transform((made, description, loader, module, domain) ->
            made.visit(Advice.to(advice).on(method)));
    }

    /** Write a message for the log, if it is the Raft client's. */
    public static void log(Object logger, String level, Object[] arguments) throws ReflectiveOperationException {
        String name = (String) call(logger, "getName");
        boolean prefixed = logger.getClass().getName().contains(".LogContext$");
        // Only the log of records writes by a logger of the library, without Kafka's prefix.
        if (!name.startsWith("org.apache.kafka.raft") || !(prefixed || name.endsWith(".KafkaRaftLog"))) {
            return;
        }
        Object[] values = Arrays.copyOfRange(arguments, 1, arguments.length);
        if (values.length == 1 && values[0] instanceof Object[]) {
            values = (Object[]) values[0];
        }
        Object text = format().invoke(null, (prefixed ? field(logger, "prefix") : "") + (String) arguments[0], values);
        write("\"event\":\"log\",\"level\":\"" + level.toUpperCase(Locale.ROOT) + "\",\"text\":\""
            + escaped((String) call(text, "getMessage")) + "\"");
    }

    /** Return the formatter of the logging library, which is Kafka's. */
    private static Method format() throws ReflectiveOperationException {
        if (format == null) {
            format = Class.forName("org.slf4j.helpers.MessageFormatter").getMethod("arrayFormat", String.class, Object[].class);
        }
        return format;
    }

    /** Write the client's state if it is not the last one that was written. */
    public static synchronized void state(Object client) throws ReflectiveOperationException {
        Object quorum = field(client, "quorum");
        Object log = field(client, "log");
        Object records = field(client, "partitionState");
        Object state = quorum == null ? null : field(quorum, "state");
        if (state == null || records == null) {
            return;
        }
        Object election = call(state, "election");
        Object end = call(log, "endOffset");
        StringBuilder voters = new StringBuilder();
        for (Map.Entry<Integer, String> voter : voters(call(records, "lastVoterSet")).entrySet()) {
            voters.append(voters.length() == 0 ? "" : ",").append("\"").append(voter.getKey()).append("\":")
                .append(voter.getValue());
        }
        String now = "\"mode\":\"" + escaped(state.getClass().getSimpleName().replaceFirst("State$", "")) + "\""
            + ",\"epoch\":" + call(quorum, "epoch")
            + ",\"leader\":" + plain(call(quorum, "leaderId"))
            + ",\"voted\":" + voted(call(election, "optionalVotedKey"))
            + ",\"start\":" + call(log, "startOffset")
            + ",\"end\":" + call(end, "offset")
            + ",\"last\":" + call(log, "lastFetchedEpoch")
            + ",\"high_watermark\":" + watermark(call(state, "highWatermark"))
            + ",\"version\":" + call(call(records, "lastKraftVersion"), "featureLevel")
            + ",\"voters_offset\":" + plain(call(records, "lastVoterSetOffset"))
            + ",\"voters\":{" + voters + "}";
        if (!now.equals(last)) {
            last = now;
            write("\"event\":\"state\"," + now);
        }
    }

    private static Map<Integer, String> voters(Object voters) throws ReflectiveOperationException {
        Map<Integer, String> found = new TreeMap<>();
        for (Object key : (Iterable<?>) call(voters, "voterKeys")) {
            found.put((Integer) call(key, "id"), directory(key));
        }
        return found;
    }

    private static String voted(Object key) throws ReflectiveOperationException {
        Object one = ((Optional<?>) key).orElse(null);
        return one == null ? "null" : "{\"id\":" + call(one, "id") + ",\"directory\":" + directory(one) + "}";
    }

    private static String directory(Object key) throws ReflectiveOperationException {
        Object directory = ((Optional<?>) call(key, "directoryId")).orElse(null);
        return directory == null ? "null" : "\"" + directory + "\"";
    }

    private static String watermark(Object mark) throws ReflectiveOperationException {
        Object one = ((Optional<?>) mark).orElse(null);
        return one == null ? "null" : call(one, "offset").toString();
    }

    private static String plain(Object optional) {
        if (optional instanceof OptionalInt) {
            OptionalInt number = (OptionalInt) optional;
            return number.isPresent() ? "" + number.getAsInt() : "null";
        }
        OptionalLong number = (OptionalLong) optional;
        return number.isPresent() ? "" + number.getAsLong() : "null";
    }

    /** Return a field of an object, whatever its access. */
    public static Object field(Object object, String name) throws ReflectiveOperationException {
        String key = object.getClass().getName() + "." + name;
        Field field = FIELDS.get(key);
        if (field == null) {
            Class<?> owner = object.getClass();
            while (Arrays.stream(owner.getDeclaredFields()).map(Field::getName).noneMatch(name::equals)) {
                owner = owner.getSuperclass();
            }
            field = owner.getDeclaredField(name);
            field.setAccessible(true);
            FIELDS.put(key, field);
        }
        return field.get(object);
    }

    private static Object call(Object object, String name) throws ReflectiveOperationException {
        String key = object.getClass().getName() + "." + name;
        Method method = METHODS.get(key);
        if (method == null) {
            method = object.getClass().getMethod(name);
            method.setAccessible(true);
            METHODS.put(key, method);
        }
        return method.invoke(object);
    }

    private static synchronized void write(String fields) {
        String line = "{\"seq\":" + count + ",\"time\":" + System.currentTimeMillis() + "," + fields + "}\n";
        left -= line.length();
        if (left < 0) {
            return;
        }
        count++;
        try {
            out.write(line);
            out.flush();
        } catch (IOException error) {
            left = 0;  // a full disk: Kafka goes on without the agent
        }
    }

    private static String escaped(String text) {
        StringBuilder found = new StringBuilder(text.length() + 16);
        for (int index = 0; index < text.length(); index++) {
            char one = text.charAt(index);
            if (one == '"' || one == '\\') {
                found.append('\\').append(one);
            } else if (one < ' ') {
                found.append(String.format("\\u%04x", (int) one));
            } else {
                found.append(one);
            }
        }
        return found.toString();
    }

    public static final class Log {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object logger, @Advice.Origin("#m") String level, @Advice.AllArguments Object[] arguments)
                throws Throwable {
            log(logger, level, arguments);
        }
    }

    public static final class Around {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object client) throws Throwable {
            state(client);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.This Object client) throws Throwable {
            state(client);
        }
    }

    public static final class After {
        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.This Object client) throws Throwable {
            state(client);
        }
    }
}
