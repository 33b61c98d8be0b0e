package stormproof.rocketmq;

import java.util.Map;

import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's {@code mqadmin}, as it is, with the arguments of its command line. The controllers tell it the address that
 * their leader has in the cluster's own network; STORMPROOF_ENDPOINTS in the environment is a JSON object that says at
 * which {@code HOST:PORT} each of their ports is reached from here.
 */
public final class AdminTool implements RPCHook {
    private final Map<?, ?> endpoints;

    private AdminTool(String json) {
        endpoints = RemotingSerializable.fromJson(json, Map.class);
    }

    public static void main(String[] arguments) {
        MQAdminStartup.main0(arguments, new AdminTool(System.getenv("STORMPROOF_ENDPOINTS")));
        System.exit(0); // threads of its own would keep the program alive
    }

    @Override
    public void doBeforeRequest(String address, RemotingCommand request) {
    }

    @Override
    public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
        boolean asked = request.getCode() == RequestCode.CONTROLLER_GET_METADATA_INFO;
        if (!asked || response == null || response.getExtFields() == null) {
            return;
        }
        String leader = response.getExtFields().get("controllerLeaderAddress");
        if (leader != null) {
            Object endpoint = endpoints.get(leader.substring(leader.lastIndexOf(':') + 1));
            response.getExtFields().put("controllerLeaderAddress", endpoint == null ? leader : (String) endpoint);
        }
    }
}
