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

/** DELETE, UPDATE or MERGE of the version that is read: rows go by their address, others come. */
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

  /** Rows that move keep their ids. */
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
      request.putArray("on"); // LookedUp fills it from the plan
    }
    return new AlanceWrite(table, info, request);
  }
}
