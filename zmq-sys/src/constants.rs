//! The constants of libzmq. The header gives them no type; the `zmq` crate compares them with values of `u32`.

// The types of sockets.
pub const ZMQ_PAIR: u32 = 0;
pub const ZMQ_PUB: u32 = 1;
pub const ZMQ_SUB: u32 = 2;
pub const ZMQ_REQ: u32 = 3;
pub const ZMQ_REP: u32 = 4;
pub const ZMQ_DEALER: u32 = 5;
pub const ZMQ_ROUTER: u32 = 6;
pub const ZMQ_PULL: u32 = 7;
pub const ZMQ_PUSH: u32 = 8;
pub const ZMQ_XPUB: u32 = 9;
pub const ZMQ_XSUB: u32 = 10;
pub const ZMQ_STREAM: u32 = 11;

// The option of a context.
pub const ZMQ_IO_THREADS: u32 = 1;

// How a message is sent and received.
pub const ZMQ_DONTWAIT: u32 = 1;
pub const ZMQ_SNDMORE: u32 = 2;

// What a socket is ready for: `zmq_poll`, and the option `ZMQ_EVENTS`.
pub const ZMQ_POLLIN: u32 = 1;
pub const ZMQ_POLLOUT: u32 = 2;
pub const ZMQ_POLLERR: u32 = 4;

// What a socket says of itself.
pub const ZMQ_TYPE: u32 = 16;
pub const ZMQ_RCVMORE: u32 = 13;
pub const ZMQ_FD: u32 = 14;
pub const ZMQ_EVENTS: u32 = 15;
pub const ZMQ_LAST_ENDPOINT: u32 = 32;
pub const ZMQ_MECHANISM: u32 = 43;

// Queues, waits and sizes.
pub const ZMQ_AFFINITY: u32 = 4;
pub const ZMQ_SNDHWM: u32 = 23;
pub const ZMQ_RCVHWM: u32 = 24;
pub const ZMQ_SNDTIMEO: u32 = 28;
pub const ZMQ_RCVTIMEO: u32 = 27;
pub const ZMQ_LINGER: u32 = 17;
pub const ZMQ_MAXMSGSIZE: u32 = 22;
pub const ZMQ_CONFLATE: u32 = 54;

// Connections.
pub const ZMQ_IPV6: u32 = 42;
pub const ZMQ_IMMEDIATE: u32 = 39;
pub const ZMQ_BACKLOG: u32 = 19;
pub const ZMQ_USE_FD: u32 = 89;
pub const ZMQ_CONNECT_TIMEOUT: u32 = 79;
pub const ZMQ_HANDSHAKE_IVL: u32 = 66;
pub const ZMQ_RECONNECT_IVL: u32 = 18;
pub const ZMQ_RECONNECT_IVL_MAX: u32 = 21;
pub const ZMQ_HEARTBEAT_IVL: u32 = 75;
pub const ZMQ_HEARTBEAT_TTL: u32 = 76;
pub const ZMQ_HEARTBEAT_TIMEOUT: u32 = 77;
pub const ZMQ_SNDBUF: u32 = 11;
pub const ZMQ_RCVBUF: u32 = 12;
pub const ZMQ_TCP_KEEPALIVE: u32 = 34;
pub const ZMQ_TCP_KEEPALIVE_CNT: u32 = 35;
pub const ZMQ_TCP_KEEPALIVE_IDLE: u32 = 36;
pub const ZMQ_TCP_KEEPALIVE_INTVL: u32 = 37;
pub const ZMQ_TOS: u32 = 57;
pub const ZMQ_SOCKS_PROXY: u32 = 68;
pub const ZMQ_RATE: u32 = 8;
pub const ZMQ_RECOVERY_IVL: u32 = 9;
pub const ZMQ_MULTICAST_HOPS: u32 = 25;

// Publish and subscribe.
pub const ZMQ_SUBSCRIBE: u32 = 6;
pub const ZMQ_UNSUBSCRIBE: u32 = 7;
pub const ZMQ_XPUB_VERBOSE: u32 = 40;
pub const ZMQ_XPUB_NODROP: u32 = 69;
pub const ZMQ_XPUB_WELCOME_MSG: u32 = 72;

// Request, reply and routing.
pub const ZMQ_ROUTING_ID: u32 = 5;
pub const ZMQ_REQ_CORRELATE: u32 = 52;
pub const ZMQ_REQ_RELAXED: u32 = 53;
pub const ZMQ_PROBE_ROUTER: u32 = 51;
pub const ZMQ_ROUTER_MANDATORY: u32 = 33;
pub const ZMQ_ROUTER_HANDOVER: u32 = 56;

// Security: the mechanisms, and the options of each.
pub const ZMQ_NULL: u32 = 0;
pub const ZMQ_PLAIN: u32 = 1;
pub const ZMQ_CURVE: u32 = 2;
pub const ZMQ_GSSAPI: u32 = 3;
pub const ZMQ_ZAP_DOMAIN: u32 = 55;
pub const ZMQ_PLAIN_SERVER: u32 = 44;
pub const ZMQ_PLAIN_USERNAME: u32 = 45;
pub const ZMQ_PLAIN_PASSWORD: u32 = 46;
pub const ZMQ_CURVE_SERVER: u32 = 47;
pub const ZMQ_CURVE_PUBLICKEY: u32 = 48;
pub const ZMQ_CURVE_SECRETKEY: u32 = 49;
pub const ZMQ_CURVE_SERVERKEY: u32 = 50;
pub const ZMQ_GSSAPI_SERVER: u32 = 62;
pub const ZMQ_GSSAPI_PRINCIPAL: u32 = 63;
pub const ZMQ_GSSAPI_SERVICE_PRINCIPAL: u32 = 64;
pub const ZMQ_GSSAPI_PLAINTEXT: u32 = 65;

// What a monitor reports, in the order of a connection's life.
pub const ZMQ_EVENT_LISTENING: u32 = 0x0008;
pub const ZMQ_EVENT_BIND_FAILED: u32 = 0x0010;
pub const ZMQ_EVENT_ACCEPTED: u32 = 0x0020;
pub const ZMQ_EVENT_ACCEPT_FAILED: u32 = 0x0040;
pub const ZMQ_EVENT_CONNECT_DELAYED: u32 = 0x0002;
pub const ZMQ_EVENT_CONNECT_RETRIED: u32 = 0x0004;
pub const ZMQ_EVENT_CONNECTED: u32 = 0x0001;
pub const ZMQ_EVENT_HANDSHAKE_SUCCEEDED: u32 = 0x1000;
pub const ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: u32 = 0x0800;
pub const ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: u32 = 0x2000;
pub const ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: u32 = 0x4000;
pub const ZMQ_EVENT_DISCONNECTED: u32 = 0x0200;
pub const ZMQ_EVENT_CLOSED: u32 = 0x0080;
pub const ZMQ_EVENT_CLOSE_FAILED: u32 = 0x0100;
pub const ZMQ_EVENT_MONITOR_STOPPED: u32 = 0x0400;
pub const ZMQ_EVENT_ALL: u32 = 0xFFFF;
