package org.apache.kafka.raft;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

import org.slf4j.Logger;
import org.slf4j.helpers.MessageFormatter;

/** The log of a Raft client at TRACE, in the pattern of Kafka's log4j files and with the times of its virtual clock. */
final class LockstepTrace {
    private static final List<String> LEVELS = List.of("trace", "debug", "info", "warn", "error");
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss,SSS").withZone(ZoneOffset.UTC);

    final String prefix;
    private final LockstepParts.Clock time;
    private final Path file;
    private final List<String> waiting = new ArrayList<>();  // lines that are not in the file yet
    private boolean holds;  // whether a request among them waits for its receiver

    LockstepTrace(Path folder, int id, LockstepParts.Clock time) throws IOException {
        this.prefix = "[RaftManager id=" + id + "] ";
        this.time = time;
        this.file = folder.resolve("node" + id + ".log");
        Files.deleteIfExists(file);
    }

    void write(String level, String text, String name) {
        waiting.add("[" + TIME.format(Instant.ofEpochMilli(time.milliseconds())) + "] " + level + " " + text + " (" + name + ")");
    }

    /** Keeps the lines back from a request on whose receiver is not chosen yet. */
    void hold() {
        holds = true;
    }

    /** Writes the chosen receiver into the line of a request: Kafka has chosen one at random. */
    void redirect(RaftRequest.Outbound request, InetSocketAddress to) {
        String start = "Sent outbound request: OutboundRequest(correlationId=" + request.correlationId() + ",";
        String chosen = "destination=" + to.getHostString() + ":" + to.getPort() + " ";
        waiting.replaceAll(line -> line.contains(start) ? line.replaceFirst("destination=\\S+ ", chosen) : line);
        holds = false;
    }

    void release() {
        holds = false;
    }

    void flush() throws IOException {
        if (!holds && !waiting.isEmpty()) {
            Files.write(file, waiting, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            waiting.clear();
        }
    }

    /** A logger with every level enabled; calls with a marker write nothing. */
    Logger logger(String name) {
        return (Logger) Proxy.newProxyInstance(Logger.class.getClassLoader(), new Class<?>[] {Logger.class}, (self, method, given) -> {
            if (method.getReturnType() == boolean.class) {
                return true;
            }
            if (LEVELS.contains(method.getName()) && given[0] instanceof String) {
                Object[] values = Arrays.copyOfRange(given, 1, given.length);
                if (values.length == 1 && values[0] instanceof Object[]) {
                    values = (Object[]) values[0];
                }
                String text = MessageFormatter.arrayFormat((String) given[0], values).getMessage();
                write(method.getName().toUpperCase(Locale.ROOT), prefix + text, name);
            }
            return method.getName().equals("getName") ? name : null;
        });
    }
}
