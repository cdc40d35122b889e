package alance.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** A scan whose single row is the number of all rows, known to the driver. */
record CountScan(StructType readSchema, long rowCount) implements LocalScan {
  @Override
  public InternalRow[] rows() {
    return new InternalRow[] {new GenericInternalRow(new Object[] {rowCount})};
  }

  @Override
  public String description() {
    return "alance: count of all rows";
  }
}
