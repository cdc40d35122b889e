package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * One request to Python and its answers, whose parts each begin with a byte:
 *
 * <pre>
 *   J  u32 length, JSON             the answer to a request
 *   B  Arrow IPC (schema), batch    rows; the schema comes once
 *   Z                               end of the rows
 *   E  u32 length, JSON             an error, which ends the answer
 * </pre>
 *
 * Numbers are big-endian. Requests with rows use the same form. Closing cancels Python's work.
 */
final class Connection implements Closeable {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final SocketChannel channel;
  private final Server server;
  private int kind; // kind of the next part; 0: not read yet

  Connection(SocketChannel channel, Server server) {
    this.channel = channel;
    this.server = server;
  }

  /** Send a request and wait until it is answered. */
  void send(byte[] text) throws IOException {
    write(ByteBuffer.allocate(4 + text.length).putInt(text.length).put(text).flip());
    kind = read(1).get();
  }

  /** Send the byte that begins a part of rows, or ends the rows. */
  void mark(char part) throws IOException {
    write(ByteBuffer.allocate(1).put((byte) part).flip());
  }

  private void write(ByteBuffer message) throws IOException {
    while (message.hasRemaining()) {
      channel.write(message);
    }
  }

  SocketChannel channel() {
    return channel;
  }

  Server server() {
    return server;
  }

  /**
   * The text of the next answer.
   *
   * @throws PythonError Python failed
   */
  byte[] text() throws IOException {
    expect('J');
    kind = 0;
    return read(read(4).getInt()).array();
  }

  /**
   * True if another batch follows next in the channel.
   *
   * @throws PythonError Python failed
   */
  boolean hasBatch() throws IOException {
    if (kind() == 'Z') {
      return false;
    }
    expect('B');
    kind = 0;
    return true;
  }

  private int kind() throws IOException {
    if (kind == 0) {
      kind = read(1).get();
    }
    return kind;
  }

  private void expect(char expected) throws IOException {
    if (kind() == 'E') {
      JsonNode error = JSON.readTree(read(read(4).getInt()).array());
      throw new PythonError(error.get("message").asText() + "\n" + error.get("trace").asText());
    }
    if (kind != expected) {
      throw new IOException("an answer of kind " + kind + ", expected " + expected);
    }
  }

  private ByteBuffer read(int size) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(size);
    while (buffer.hasRemaining()) {
      if (channel.read(buffer) < 0) {
        throw new EOFException("the connection was closed");
      }
    }
    return buffer.flip();
  }

  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException error) {
      // The channel is closed either way.
    }
  }
}
