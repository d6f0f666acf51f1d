"""What is known of hosts, ports and captures: read by any rule, judged by none."""
