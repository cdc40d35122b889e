package alance.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.Function2;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Adds the statements of {@link Statements} to a session: `spark.sql.extensions`. */
public final class AlanceExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    Function2<SparkSession, ParserInterface, ParserInterface> wrap =
        (session, parser) -> wrap(parser);
    extensions.injectParser(wrap);
    return BoxedUnit.UNIT;
  }

  /** A proxy, because the methods of a parser differ between versions of Spark. */
  private static ParserInterface wrap(ParserInterface parser) {
    Statements statements = new Statements(parser);
    return (ParserInterface)
        Proxy.newProxyInstance(
            AlanceExtensions.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            (proxy, method, arguments) -> {
              if (method.getName().startsWith("parsePlan")) {
                arguments = arguments.clone();
                arguments[0] = statements.asCall((String) arguments[0]);
              }
              try {
                return method.invoke(parser, arguments);
              } catch (InvocationTargetException error) {
                throw error.getCause();
              }
            });
  }
}
