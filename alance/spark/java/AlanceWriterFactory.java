package alance.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Goes to the executors: what all tasks of a write share.
 *
 * @param save what Python wants to be told, pickled; it has the options of the store
 * @param schema of rows; addressSchema: of what says where a row is; metadataSchema: of what else
 *     is told of one that moves
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
    return AlanceProvider.NAME; // the save has secrets
  }
}
