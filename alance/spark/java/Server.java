package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.InterruptedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The Python process of this JVM. It starts on the first request, and again if it has exited. It
 * exits with the JVM, which closes its standard input, or after minutes without a request. Its
 * socket is in a folder that only this user may enter.
 */
final class Server {
  private static final Logger LOG = LoggerFactory.getLogger(Server.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<Python, Server> SERVERS = new HashMap<>();
  private static final String MODULE = "alance.spark.connector.server";
  private static final int LAST_LINES = 40; // of its output, for the error after its exit
  private static final int START_S = 600; // takes 1 s of CPU; up to 22 s seen on a busy machine
  private static final int END_S = 10;
  private static final int ATTEMPTS = 2; // an idle process may exit as the request arrives

  private final Python python;
  private final ArrayDeque<String> lines = new ArrayDeque<>();
  private volatile Process process;
  private CompletableFuture<Boolean> ready; // completes when the process listens, or has exited
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
   * Send a request and return its single answer.
   *
   * @throws PythonError Python failed
   */
  JsonNode ask(ObjectNode request) {
    try (Connection connection = send(request)) {
      return JSON.readTree(connection.text());
    } catch (IOException error) {
      throw new PythonError(said(error));
    }
  }

  /** A connection with a sent request, after the first byte of its answer arrived. */
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
        awaitEnd();
      }
    }
  }

  /** Text of a connection's error, with Python's last output if the process has exited. */
  String said(IOException error) {
    synchronized (lines) {
      String text = String.valueOf(error.getMessage());
      boolean ended = process == null || !process.isAlive();
      return ended
          ? "the Python process of alance has ended: " + text + "\n" + String.join("\n", lines)
          : "the Python process of alance: " + text;
    }
  }

  /** Address of the socket, once it listens. Cancelling a waiting task does not affect others. */
  private UnixDomainSocketAddress address() throws IOException {
    CompletableFuture<Boolean> starting = started();
    boolean isReady = false;
    try {
      isReady = starting.get(START_S, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("cancelled while Python starts");
    } catch (ExecutionException | TimeoutException error) {
      LOG.debug("Python of alance", error);
    }
    if (!isReady) {
      stop(starting);
      throw new IOException(python.executable() + " -m " + MODULE + " did not start");
    }
    return UnixDomainSocketAddress.of(folder.resolve("socket"));
  }

  /** Wait until a process that refused or closed a connection has exited. */
  private void awaitEnd() throws IOException {
    try {
      process.waitFor(END_S, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("cancelled while Python ends");
    }
  }

  private synchronized CompletableFuture<Boolean> started() throws IOException {
    if (process == null || !process.isAlive()) {
      start();
    }
    return ready;
  }

  private void start() throws IOException {
    if (folder == null) {
      folder = Files.createTempDirectory("alance-"); // 0700
      Runtime.getRuntime().addShutdownHook(new Thread(this::end));
    }
    Files.deleteIfExists(folder.resolve("socket"));
    ProcessBuilder builder = python.process(MODULE, folder.resolve("socket").toString());
    process = builder.start(); // its input stays open until this JVM exits
    Process started = process;
    CompletableFuture<Boolean> told = new CompletableFuture<>();
    ready = told;
    Thread listener = daemon(() -> listen(started), "alance-python-log");
    daemon(
        () -> {
          try {
            boolean isReady = started.inputReader().readLine() != null;
            if (!isReady) {
              listener.join(1000); // until the log has the reason
            }
            told.complete(isReady);
          } catch (IOException | InterruptedException error) {
            told.completeExceptionally(error);
          }
        },
        "alance-python-start");
  }

  private static Thread daemon(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  /** Kill a process that does not start, so that the next request starts another. */
  private synchronized void stop(CompletableFuture<Boolean> starting) {
    if (starting == ready) {
      process.destroyForcibly();
      try {
        process.waitFor();
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
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

  private void end() {
    process.destroyForcibly();
    try {
      Files.deleteIfExists(folder.resolve("socket"));
      Files.deleteIfExists(folder);
    } catch (IOException error) {
      LOG.debug("a temporary folder stays: {}", folder, error);
    }
  }
}
