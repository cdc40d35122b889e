package alance.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Set;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.types.Types.MinorType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column without members, read from Arrow's memory by address. Spark's own class for Arrow checks
 * bounds and builds a BigDecimal for each decimal. Row numbers are unchecked, as Spark only passes
 * rows of the batch.
 */
final class FlatColumn extends ColumnVector {
  private static final Set<MinorType> FLAT =
      Set.of(
          MinorType.BIT,
          MinorType.TINYINT,
          MinorType.SMALLINT,
          MinorType.INT,
          MinorType.BIGINT,
          MinorType.FLOAT4,
          MinorType.FLOAT8,
          MinorType.DATEDAY,
          MinorType.TIMESTAMPMICRO,
          MinorType.TIMESTAMPMICROTZ,
          MinorType.DECIMAL,
          MinorType.VARCHAR,
          MinorType.VARBINARY);
  private static final int LONG_DIGITS = 18; // of a decimal that fits its low 8 bytes

  private final int nulls;
  private final long validity;
  private final long offsets;
  private final long data;

  private FlatColumn(FieldVector vector, boolean hasOffsets) {
    super(ArrowUtils.fromArrowField(vector.getField()));
    nulls = vector.getNullCount();
    validity = vector.getValidityBufferAddress();
    offsets = hasOffsets ? vector.getOffsetBufferAddress() : 0;
    data = vector.getDataBufferAddress();
  }

  /** View of a vector, which keeps its memory; valid until the next batch is loaded. */
  static ColumnVector of(FieldVector vector) {
    MinorType kind = vector.getMinorType();
    if (!FLAT.contains(kind)) {
      return new ArrowColumnVector(vector) {
        /** Spark closes the columns of a batch, but the reader loads the next one into them. */
        @Override
        public void close() {}
      };
    }
    return new FlatColumn(vector, kind == MinorType.VARCHAR || kind == MinorType.VARBINARY);
  }

  @Override
  public boolean hasNull() {
    return nulls > 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls > 0 && !bit(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(data, row);
  }

  private static boolean bit(long address, int row) {
    return (Platform.getByte(null, address + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, data + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, data + 2L * row);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, data + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, data + 8L * row);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, data + 4L * row);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, data + 8L * row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    long low = Platform.getLong(null, data + 16L * row);
    if (precision <= LONG_DIGITS) {
      return Decimal.createUnsafe(low, precision, scale);
    }
    BigInteger high = BigInteger.valueOf(Platform.getLong(null, data + 16L * row + 8));
    BigInteger lower = BigInteger.valueOf(low >>> 1).shiftLeft(1).or(BigInteger.valueOf(low & 1));
    BigDecimal value = new BigDecimal(high.shiftLeft(64).or(lower), scale);
    return Decimal.apply(value, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = Platform.getInt(null, offsets + 4L * row);
    int stop = Platform.getInt(null, offsets + 4L * row + 4);
    return UTF8String.fromAddress(null, data + start, stop - start);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = Platform.getInt(null, offsets + 4L * row);
    byte[] bytes = new byte[Platform.getInt(null, offsets + 4L * row + 4) - start];
    Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw new UnsupportedOperationException("no array");
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException("no map");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw new UnsupportedOperationException("no members");
  }

  @Override
  public void close() {}
}
