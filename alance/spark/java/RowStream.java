package alance.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Closeable;
import java.io.IOException;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;

/** Sends a task's rows of one kind to Python, in Arrow batches. */
final class RowStream implements Closeable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int BATCH_ROWS = 8192;
  private static final long BATCH_BYTES = 4 << 20;
  private static final int ROWS_UNWEIGHED = 64; // between checks of a batch's bytes

  private final Connection connection;
  private final ArrowWriter rows;
  private final ArrowStreamWriter stream;
  private int count;
  private boolean isBegun;

  /**
   * @param kind `new`, `moved` or `gone`
   */
  RowStream(Python python, byte[] save, String kind, StructType schema) throws IOException {
    ObjectNode request = Server.request("write").put("save", save).put("kind", kind);
    connection = Server.of(python).send(request);
    connection.text();
    rows = ArrowWriter.create(schema, "UTC", true, false);
    stream = new ArrowStreamWriter(rows.root(), null, connection.channel());
  }

  void write(InternalRow row) throws IOException {
    rows.write(row);
    count++;
    boolean isLarge = count % ROWS_UNWEIGHED == 0 && rows.sizeInBytes() > BATCH_BYTES;
    if (isLarge || count == BATCH_ROWS) {
      flush();
    }
  }

  private void flush() throws IOException {
    rows.finish();
    try {
      connection.mark('B');
      if (!isBegun) {
        stream.start();
        isBegun = true;
      }
      stream.writeBatch();
    } catch (IOException error) {
      throw failed(error);
    }
    rows.reset();
    count = 0;
  }

  /**
   * Send the remaining rows.
   *
   * @return Python's description of the written rows
   */
  String end() throws IOException {
    if (count > 0) {
      flush();
    }
    try {
      connection.mark('Z');
      return JSON.readTree(connection.text()).get("change").asText(null);
    } catch (IOException error) {
      throw failed(error);
    }
  }

  /** Throw the error that Python reported before it hung up, else return one of the connection. */
  private IOException failed(IOException error) {
    try {
      connection.text();
    } catch (IOException gone) {
      // Python reported no error.
    }
    return new IOException(connection.server().said(error), error);
  }

  /** If called before `end`, Python removes the files that it has written. */
  @Override
  public void close() {
    connection.close();
    rows.root().close();
  }
}
