package alance.spark;

import java.io.IOException;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The batches of one task: Arrow memory as Spark columns, without a copy. */
final class AlanceReader implements PartitionReader<ColumnarBatch> {
  private final Connection connection;
  private final BufferAllocator allocator =
      ArrowUtils.rootAllocator().newChildAllocator("alance", 0, Long.MAX_VALUE);
  private final ArrowStreamReader arrow;
  private ColumnarBatch batch;

  AlanceReader(Connection connection) {
    this.connection = connection;
    this.arrow = new ArrowStreamReader(connection.channel(), allocator);
  }

  @Override
  public boolean next() throws IOException {
    try {
      if (!connection.hasBatch()) {
        return false;
      }
      arrow.loadNextBatch();
      VectorSchemaRoot root = arrow.getVectorSchemaRoot();
      List<FieldVector> vectors = root.getFieldVectors();
      ColumnVector[] columns = new ColumnVector[vectors.size()];
      for (int i = 0; i < columns.length; i++) {
        columns[i] = FlatColumn.of(vectors.get(i));
      }
      batch = new ColumnarBatch(columns, root.getRowCount());
      return true;
    } catch (IOException error) {
      throw new IOException(connection.server().said(error), error);
    }
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    connection.close();
    arrow.close(false);
    allocator.close();
  }
}
