package alance.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** Rows that one task adds, replaces or deletes. */
final class AlanceWriter implements DeltaWriter<InternalRow> {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final AlanceWriterFactory job;
  private final Map<String, RowStream> streams = new LinkedHashMap<>();
  private final JoinedRow addressed = new JoinedRow();
  private final JoinedRow moved = new JoinedRow();

  AlanceWriter(AlanceWriterFactory job) {
    this.job = job;
  }

  @Override
  public void write(InternalRow row) throws IOException {
    insert(row);
  }

  @Override
  public void insert(InternalRow row) throws IOException {
    stream("new", job.schema()).write(row);
  }

  @Override
  public void update(InternalRow metadata, InternalRow address, InternalRow row)
      throws IOException {
    addressed.apply(address, metadata);
    stream("moved", job.movedSchema()).write(moved.apply(row, addressed));
  }

  @Override
  public void delete(InternalRow metadata, InternalRow address) throws IOException {
    stream("gone", job.addressSchema()).write(address);
  }

  private RowStream stream(String kind, StructType schema) throws IOException {
    RowStream stream = streams.get(kind);
    if (stream == null) {
      stream = new RowStream(job.python(), job.save(), kind, schema);
      streams.put(kind, stream);
    }
    return stream;
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    ObjectNode changes = JSON.createObjectNode();
    for (Map.Entry<String, RowStream> stream : streams.entrySet()) {
      String change = stream.getValue().end();
      if (change != null) {
        changes.put(stream.getKey(), change);
      }
    }
    return new AlanceMessage(changes.toString());
  }

  @Override
  public void abort() {
    close();
  }

  @Override
  public void close() {
    streams.values().forEach(RowStream::close);
    streams.clear();
  }
}
