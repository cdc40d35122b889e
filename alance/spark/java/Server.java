package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The Python process of this JVM. It is started when it is first asked, and again where it has
 * ended; it ends with the JVM, whose end of its standard input it sees, or when nobody has asked it
 * for minutes. Its socket is in a folder that this user alone may enter.
 */
final class Server {
  private static final Logger LOG = LoggerFactory.getLogger(Server.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<Python, Server> SERVERS = new HashMap<>();
  private static final String MODULE = "alance.spark.server";
  private static final int LAST_LINES = 40; // of what it says, for the error when it has ended
  private static final int START_S = 120; // it takes 2 s of a core, more where many start at once
  private static final int ATTEMPTS = 2; // a process that had been idle may end as it is asked

  private final Python python;
  private final ArrayDeque<String> lines = new ArrayDeque<>();
  private volatile Process process;
  private volatile boolean isReady;
  private Path folder;

  private Server(Python python) {
    this.python = python;
  }

  static Server of(Python python) {
    synchronized (SERVERS) {
      return SERVERS.computeIfAbsent(python, Server::new);
    }
  }

  static ObjectNode request(String verb) {
    return JSON.createObjectNode().put("verb", verb);
  }

  /**
   * A question that has one answer.
   *
   * @throws PythonError what Python raised
   */
  JsonNode ask(ObjectNode request) {
    try (Connection connection = send(request)) {
      return JSON.readTree(connection.text());
    } catch (IOException error) {
      throw new PythonError(said(error));
    }
  }

  /** A connection over which a request has gone, and the first byte of its answer has come. */
  Connection send(ObjectNode request) throws IOException {
    byte[] text = JSON.writeValueAsBytes(request);
    for (int attempt = 1; ; attempt++) {
      Connection connection = null;
      try {
        connection = new Connection(SocketChannel.open(address()), this);
        connection.send(text);
        return connection;
      } catch (IOException error) {
        if (connection != null) {
          connection.close();
        }
        if (attempt == ATTEMPTS || Thread.currentThread().isInterrupted()) {
          throw error;
        }
      }
    }
  }

  /** An error of a connection, and what Python said where that is why. */
  String said(IOException error) {
    synchronized (lines) {
      String text = String.valueOf(error.getMessage());
      boolean ended = process == null || !process.isAlive();
      return ended
          ? "the Python process of alance has ended: " + text + "\n" + String.join("\n", lines)
          : "the Python process of alance: " + text;
    }
  }

  private synchronized UnixDomainSocketAddress address() throws IOException {
    if (process == null || !process.isAlive()) {
      start();
    }
    return UnixDomainSocketAddress.of(folder.resolve("socket"));
  }

  private void start() throws IOException {
    if (folder == null) {
      folder = Files.createTempDirectory("alance-"); // 0700
      Runtime.getRuntime().addShutdownHook(new Thread(this::stop));
    }
    Files.deleteIfExists(folder.resolve("socket"));
    ProcessBuilder builder = python.process(MODULE, folder.resolve("socket").toString());
    isReady = false;
    process = builder.start(); // its input stays open as long as this JVM lives
    Process started = process;
    Thread listener = new Thread(() -> listen(started), "alance-python-log");
    listener.setDaemon(true);
    listener.start();
    CompletableFuture.delayedExecutor(START_S, TimeUnit.SECONDS)
        .execute(() -> endUnready(started));
    String ready = started.inputReader().readLine();
    isReady = ready != null;
    if (!isReady) {
      try {
        process.waitFor();
        listener.join(1000);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
      throw new IOException(python.executable() + " -m " + MODULE + " did not start");
    }
  }

  private void endUnready(Process started) {
    if (!isReady && started == process) {
      started.destroyForcibly();
    }
  }

  private void listen(Process started) {
    try (BufferedReader reader =
        new BufferedReader(
            new InputStreamReader(started.getErrorStream(), StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        LOG.info("Python: {}", line);
        synchronized (lines) {
          lines.addLast(line);
          if (lines.size() > LAST_LINES) {
            lines.removeFirst();
          }
        }
      }
    } catch (IOException error) {
      LOG.debug("the Python process of alance has ended", error);
    }
  }

  private void stop() {
    process.destroyForcibly();
    try {
      Files.deleteIfExists(folder.resolve("socket"));
      Files.deleteIfExists(folder);
    } catch (IOException error) {
      LOG.debug("a temporary folder stays: {}", folder, error);
    }
  }
}
