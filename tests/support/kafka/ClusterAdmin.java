import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeMetadataQuorumOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Administers a cluster: a command and its answer are each one line, with tabs between the words. */
public final class ClusterAdmin {
    private static final int PATIENCE_MS = 10_000;
    private static String servers = "";
    private static Admin admin;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok\t" + execute(line.split("\t"));
            } catch (ExecutionException error) {
                servers = "";  // a client may keep to a controller that no longer leads: connect anew
                answer = "error\t" + error.getCause();
            } catch (InvocationTargetException error) {
                answer = "error\t" + error.getCause();
            } catch (Exception error) {
                answer = "error\t" + error;
            }
            out.println(answer.replaceAll("\\s*\\R\\s*", " "));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String execute(String[] words) throws Exception {
        if (words[0].equals("format")) {
            return format(Arrays.copyOfRange(words, 1, words.length));
        }
        connect(words[1]);
        switch (words[0]) {
            case "describe":
                return describe(admin.describeMetadataQuorum(
                    new DescribeMetadataQuorumOptions().timeoutMs(PATIENCE_MS / 4)).quorumInfo().get(PATIENCE_MS, TimeUnit.MILLISECONDS));
            case "add":
                admin.addRaftVoter(Integer.parseInt(words[2]), Uuid.fromString(words[3]),
                    Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", Integer.parseInt(words[4]))))
                    .all().get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                return "";
            case "remove":
                admin.removeRaftVoter(Integer.parseInt(words[2]), Uuid.fromString(words[3]))
                    .all().get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                return "";
            case "upgrade":
                FeatureUpdate update = new FeatureUpdate(Short.parseShort(words[3]), FeatureUpdate.UpgradeType.UPGRADE);
                admin.updateFeatures(Map.of(words[2], update), new UpdateFeaturesOptions())
                    .all().get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                return "";
            case "load":
                return load(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "write":
                set(admin, words[2]).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    private static KafkaFuture<Void> set(Admin admin, String value) {
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        return admin.incrementalAlterConfigs(Map.of(brokers, List.of(new AlterConfigOp(
            new ConfigEntry("log.retention.ms", value), AlterConfigOp.OpType.SET)))).all();
    }

    /** Change a configuration for some time over several connections; return the number of changes. */
    private static String load(int milliseconds, int connections) throws Exception {
        AtomicInteger done = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < connections; number++) {
            int first = (number + 1) * 1_000_000;
            threads.add(new Thread(() -> {
                try (Admin own = open(servers)) {
                    long end = System.nanoTime() + milliseconds * 1_000_000L;
                    for (int value = first; System.nanoTime() < end; value++) {
                        set(own, String.valueOf(value)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                        done.incrementAndGet();
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return String.valueOf(done.get());
    }

    private static Admin open(String wanted) {
        return Admin.create(Map.of("bootstrap.controllers", wanted, "request.timeout.ms", 4_000,
            "default.api.timeout.ms", PATIENCE_MS - 1_000, "reconnect.backoff.max.ms", 200));
    }

    private static void connect(String wanted) {
        if (!servers.equals(wanted)) {
            if (admin != null) {
                admin.close(Duration.ZERO);
            }
            admin = open(wanted);
            servers = wanted;
        }
    }

    private static String format(String[] arguments) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(said);
        Object code = Class.forName("kafka.tools.StorageTool").getMethod("execute", String[].class, PrintStream.class)
            .invoke(null, arguments, stream);
        if (!code.equals(0)) {
            throw new IllegalStateException(said.toString());
        }
        return said.toString();
    }

    private static String describe(QuorumInfo info) {
        return info.leaderId() + "\t" + info.leaderEpoch() + "\t" + replicas(info.voters()) + "\t" + replicas(info.observers()) + "\t" + info.nodes().entrySet().stream()
            .map(one -> one.getKey() + ":" + one.getValue().endpoints().get(0).port()).collect(Collectors.joining(","));
    }

    private static String replicas(List<QuorumInfo.ReplicaState> states) {
        return states.stream().map(one -> one.replicaId() + ":" + one.replicaDirectoryId() + ":" + one.logEndOffset()
            + ":" + one.lastFetchTimestamp().orElse(-1))
            .collect(Collectors.joining(","));
    }
}
