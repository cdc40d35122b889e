package alance.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** DELETE, UPDATE or MERGE on the version that is read: removes rows by address and adds rows. */
final class AlanceChange implements SupportsDelta {
  private final AlanceTable table;
  private final Command command;

  AlanceChange(AlanceTable table, Command command) {
    this.table = table;
    this.command = command;
  }

  @Override
  public Command command() {
    return command;
  }

  @Override
  public String description() {
    return AlanceProvider.NAME + " " + command;
  }

  @Override
  public NamedReference[] rowId() {
    return new NamedReference[] {Expressions.column(RowColumn.ADDRESS.name())};
  }

  /** The row id, which moved rows keep. */
  @Override
  public NamedReference[] requiredMetadataAttributes() {
    return command == Command.DELETE
        ? new NamedReference[0]
        : new NamedReference[] {Expressions.column(RowColumn.ID.name())};
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return table.scanOfChange(options, command != Command.DELETE);
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    ObjectNode request = Server.request("save").put("mode", "change");
    request.put("state", table.opened().state());
    if (command == Command.MERGE) {
      request.putArray("on"); // filled by LookedUp from the plan
    }
    return new AlanceWrite(table, info, request);
  }
}
