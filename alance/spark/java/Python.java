package alance.spark;

import java.io.Serializable;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;
import scala.collection.Iterator;

/**
 * Command to start Python as Spark does for the session's functions.
 *
 * @param executable a path, or a name that each machine resolves for itself
 * @param environment variables added to the JVM's environment
 */
record Python(String executable, HashMap<String, String> environment) implements Serializable {

  static Python of(PythonFunction function) {
    return new Python(function.pythonExec(), new HashMap<>(function.envVars()));
  }

  @Override
  public String toString() {
    return executable;
  }

  /** The pickled class of a data source, as text. */
  static String command(PythonFunction function) {
    byte[] bytes = new byte[function.command().length()];
    Iterator<Object> values = function.command().iterator();
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (Byte) values.next();
    }
    return Base64.getEncoder().encodeToString(bytes);
  }

  /** A process that runs a Python module. */
  ProcessBuilder process(String module, String... arguments) {
    String[] command = new String[arguments.length + 3];
    command[0] = executable;
    command[1] = "-m";
    command[2] = module;
    System.arraycopy(arguments, 0, command, 3, arguments.length);
    ProcessBuilder builder = new ProcessBuilder(command);
    Map<String, String> variables = builder.environment();
    String inherited = variables.get("PYTHONPATH");
    variables.putAll(environment);
    StringBuilder path = new StringBuilder(PythonUtils.sparkPythonPath());
    for (String part : new String[] {environment.get("PYTHONPATH"), inherited}) {
      if (part != null && !part.isEmpty()) {
        path.append(java.io.File.pathSeparator).append(part);
      }
    }
    variables.put("PYTHONPATH", path.toString());
    return builder;
  }
}
