from chaos.deployments._shell import main
from reference.codec import RemotingCodec
from toy_nodes import build

if __name__ == "__main__":
    main(build, lambda spec: RemotingCodec())
