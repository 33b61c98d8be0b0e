from chaos.plain import PlainCodec
from chaos.shell.node_process import main
from toy_nodes import build

if __name__ == "__main__":
    main(build, lambda spec: PlainCodec())
