//! Requests to send. They are well formed unless a test breaks them on purpose.

/// The body of a message that passes every check.
pub(crate) const FINE: &str = r#"{"topic":"t","payload":{}}"#;

/// One request. [`Request::bytes`] returns what is sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Returns a POST of a JSON body to `target`.
    pub(crate) fn post(target: &str, body: impl AsRef<[u8]>) -> Self {
        let (method, target, body) = ("POST".to_owned(), target.to_owned(), body.as_ref().to_vec());
        let request = Self { method, target, version: "HTTP/1.1", fields: Vec::new(), body };
        request.field("Host", "localhost").field("Content-Type", "application/json")
    }

    pub(crate) fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    pub(crate) fn target(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    pub(crate) fn map_target(self, change: impl FnOnce(&str) -> String) -> Self {
        let target = change(&self.target);
        self.target(&target)
    }

    pub(crate) fn with_body(self, body: Vec<u8>) -> Self {
        Self { body, ..self }
    }

    pub(crate) fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Adds a field, and keeps others of the same name.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Cuts the body into chunks of `size` bytes, with chunk extensions and a trailer field.
    pub(crate) fn chunked(mut self, size: usize) -> Self {
        let mut chunks = Vec::new();
        for chunk in self.body.chunks(size) {
            chunks.extend_from_slice(format!("{:x};of=\"a;b\"\r\n", chunk.len()).as_bytes());
            chunks.extend_from_slice(chunk);
            chunks.extend_from_slice(b"\r\n");
        }
        chunks.extend_from_slice(b"0;last\r\nX-Trailer: read and dropped\r\n\r\n");
        self.body = chunks;
        self.field("Transfer-Encoding", "chunked")
    }

    /// Returns the request line and the fields, with a Content-Length where no field frames the body.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} {}\r\n", self.method, self.target, self.version);
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.has("Content-Length") && !self.has("Transfer-Encoding") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head().as_slice(), self.body()].concat()
    }
}
