package alance.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/**
 * A write: tasks send rows to Python, the driver's Python makes one version of them. For a stream,
 * each batch becomes one version, exactly once.
 */
final class AlanceWrite
    implements DeltaWriteBuilder,
        SupportsOverwriteV2,
        DeltaWrite,
        DeltaBatchWrite,
        StreamingWrite {
  private final AlanceTable table;
  private final LogicalWriteInfo info;
  private final ObjectNode request;
  private String save;

  /**
   * @param request request that begins the write; its `mode` decides about existing rows
   */
  AlanceWrite(AlanceTable table, LogicalWriteInfo info, ObjectNode request) {
    this.table = table;
    this.info = info;
    this.request = request;
  }

  @Override
  public WriteBuilder truncate() {
    if ("append".equals(request.get("mode").asText())) { // other modes create a table
      request.put("mode", "overwrite");
    }
    return this;
  }

  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    return table.canDeleteWhere(predicates);
  }

  /** Replace the rows that meet a condition. */
  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    request.put("mode", "change").put("state", table.opened().state());
    request.set("filters", table.textsOf(predicates));
    return this;
  }

  @Override
  public DeltaWrite build() {
    return this;
  }

  @Override
  public String description() {
    return AlanceProvider.NAME;
  }

  @Override
  public String toString() {
    return AlanceProvider.NAME;
  }

  @Override
  public StreamingWrite toStreaming() {
    request.put("query", info.queryId()); // constant for a checkpoint
    save = begin();
    return this;
  }

  @Override
  public DeltaBatchWrite toBatch() {
    LookedUp.into(request, table);
    save = begin();
    return this;
  }

  /** Begin the write in Python, which may refuse it. */
  private String begin() {
    request.put("schema", info.schema().json());
    request.set("options", Opened.texts(table.ofWrite(info.options())));
    return table.ask(request).get("save").asText();
  }

  @Override
  public boolean useCommitCoordinator() {
    return true; // inherited from two interfaces
  }

  @Override
  public AlanceWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    return new AlanceWriterFactory(
        table.python(),
        Base64.getDecoder().decode(save),
        info.schema(),
        info.rowIdSchema().orElse(new StructType()),
        info.metadataSchema().orElse(new StructType()));
  }

  @Override
  public AlanceWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    return createBatchWriterFactory(physical);
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    tell(Server.request("commit"), messages);
    table.written();
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    tell(Server.request("abort"), messages);
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    tell(Server.request("commit").put("batch", batch), messages);
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {
    tell(Server.request("abort").put("batch", batch), messages);
  }

  private void tell(ObjectNode end, WriterCommitMessage[] messages) {
    end.put("save", save);
    ArrayNode changes = end.putArray("messages");
    for (WriterCommitMessage message : messages) {
      if (message instanceof AlanceMessage written) {
        changes.add(written.changes());
      }
    }
    table.ask(end);
  }

  /** Commit without rows. */
  void commitNothing() {
    toBatch().commit(new WriterCommitMessage[0]);
  }
}
