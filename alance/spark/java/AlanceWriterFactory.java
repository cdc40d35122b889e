package alance.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Sent to the executors: the state that all tasks of a write share.
 *
 * @param save pickled state for Python; it holds the options of the store
 * @param schema columns of rows; addressSchema: columns that identify a row; metadataSchema:
 *     further columns of a moved row
 */
record AlanceWriterFactory(
    Python python,
    byte[] save,
    StructType schema,
    StructType addressSchema,
    StructType metadataSchema)
    implements DeltaWriterFactory, StreamingDataWriterFactory {
  private static final long serialVersionUID = 1;

  @Override
  public DeltaWriter<InternalRow> createWriter(int partition, long task) {
    return new AlanceWriter(this);
  }

  @Override
  public DeltaWriter<InternalRow> createWriter(int partition, long task, long batch) {
    return new AlanceWriter(this);
  }

  StructType movedSchema() {
    StructType moved = schema;
    for (StructType part : new StructType[] {addressSchema, metadataSchema}) {
      for (StructField field : part.fields()) {
        moved = moved.add(field);
      }
    }
    return moved;
  }

  @Override
  public String toString() {
    return AlanceProvider.NAME; // the save holds secrets
  }
}
