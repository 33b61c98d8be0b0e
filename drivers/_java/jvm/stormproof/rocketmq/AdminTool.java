package stormproof.rocketmq;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's {@code mqadmin}, as it is, with the arguments of its command line. */
public final class AdminTool {
    private AdminTool() {
    }

    public static void main(String[] arguments) {
        MQAdminStartup.main0(arguments, null);
        System.exit(0); // threads of its own would keep the program alive
    }
}
