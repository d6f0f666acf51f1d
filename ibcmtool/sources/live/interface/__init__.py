"""`iface:NAME`: the CM packets on a network interface, or on an RDMA device where libpcap can capture from such."""
