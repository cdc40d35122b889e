package alance.spark;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** A meta column: row address or row id. */
record RowColumn(String name, String comment) implements MetadataColumn {
  static final RowColumn ADDRESS = new RowColumn("_rowaddr", "where the row is in this version");
  static final RowColumn ID = new RowColumn("_rowid", "stable where the table has stable row ids");

  @Override
  public DataType dataType() {
    return DataTypes.LongType;
  }

  @Override
  public boolean isNullable() {
    return false;
  }
}
