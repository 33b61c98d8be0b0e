from chaos.shell.node_process import main
from reference.wire.codec import RemotingCodec
from toy_nodes import build

if __name__ == "__main__":
    main(build, lambda spec: RemotingCodec())
