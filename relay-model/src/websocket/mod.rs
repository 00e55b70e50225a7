//! RFC 6455 framing: pure, strict, without I/O.
