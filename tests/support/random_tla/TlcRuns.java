import java.io.*;
import java.lang.reflect.*;
import java.net.*;
import java.nio.file.*;
import java.util.*;

/** Runs TLC many times in one JVM: each time in a class loader of its own, since TLC keeps its state in static fields. */
public final class TlcRuns {
    public static void main(String[] given) throws Exception {
        URL[] jar = {Paths.get(given[0]).toUri().toURL()};
        BufferedReader runs = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = System.out;
        for (String line; (line = runs.readLine()) != null; ) {
            String[] words = line.split("\t");
            Path folder = Paths.get(words[0]);
            try (PrintStream log = new PrintStream(Files.newOutputStream(folder.resolve(words[1])), false, "UTF-8")) {
                System.setOut(log);
                System.setErr(log);
                answers.println(run(jar, folder, Arrays.copyOfRange(words, 2, words.length), log));
            }
            answers.flush();
        }
        System.exit(0);  // threads of TLC's may be left
    }

    private static int run(URL[] jar, Path folder, String[] options, PrintStream log) throws Exception {
        try (URLClassLoader loader = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader())) {
            Thread.currentThread().setContextClassLoader(loader);
            Class<?> io = loader.loadClass("util.ToolIO");
            io.getField("out").set(null, log);
            io.getField("err").set(null, log);
            io.getMethod("setUserDir", String.class).invoke(null, folder.toString());
            Class<?> tlc = loader.loadClass("tlc2.TLC");
            Object one = tlc.getConstructor().newInstance();
            if (!(boolean) tlc.getMethod("handleParameters", String[].class).invoke(one, (Object) options)) {
                return -1;
            }
            Object resolver = loader.loadClass("util.SimpleFilenameToStream").getConstructor().newInstance();
            tlc.getMethod("setResolver", loader.loadClass("util.FilenameToStream")).invoke(one, resolver);
            return (int) tlc.getMethod("process").invoke(one);
        }
    }
}
