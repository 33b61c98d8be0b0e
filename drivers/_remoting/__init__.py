"""What drivers of systems share that speak RocketMQ's remoting protocol."""
