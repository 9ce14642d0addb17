//! A client of the API, as a frontend would write one: HTTP, JSON, a token.

use std::fmt::Display;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::people::TestUser;

/// No answer of the API may take longer; a hang is a failure, not a wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Speaks to one node, as one user or as nobody. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base_url: String,
    headers: HeaderMap,
    token: Option<String>,
}

impl Client {
    /// A client that is signed in nowhere; `addr` is `host:port`.
    pub(crate) fn to(addr: impl Display) -> Self {
        let http = reqwest::Client::builder()
            .timeout(ANSWER_LIMIT)
            .no_proxy()
            .build()
            .unwrap();
        Self {
            http,
            base_url: format!("http://{addr}"),
            headers: HeaderMap::new(),
            token: None,
        }
    }

    /// The same client with another user's token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    /// The same client as a user.
    pub(crate) fn as_user(&self, user: &TestUser) -> Self {
        self.with_token(&user.token)
    }

    /// The same client with one more header on every request.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.insert(
            HeaderName::try_from(name).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
        client
    }

    /// `http://host:port`.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The token that requests carry.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Runs one operation; panics when no answer comes.
    pub(crate) async fn gql(&self, query: &str, variables: Value) -> Answer {
        self.try_gql(query, variables).await.unwrap()
    }

    /// Runs one operation against a server that may be away.
    pub(crate) async fn try_gql(&self, query: &str, variables: Value) -> reqwest::Result<Answer> {
        let body = json!({ "query": query, "variables": variables });
        let response = self
            .prepare(self.http.post(self.url("/graphql")))
            .json(&body)
            .send()
            .await?;
        Answer::read(response).await
    }

    /// A plain GET of a path.
    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        self.prepare(self.http.get(self.url(path)))
            .send()
            .await
            .unwrap()
    }

    /// A plain POST, for what is not GraphQL.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Response {
        let mut request = self.prepare(self.http.post(self.url(path)));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body).send().await.unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn prepare(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.headers(self.headers.clone());
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// What the API answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        // What is no JSON is shown as it came: the assertion that follows will say more than a parser could.
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    /// The data of an answer without errors.
    #[track_caller]
    pub(crate) fn data(&self) -> &Value {
        assert!(
            self.errors().is_empty(),
            "expected data, got status {}: {}",
            self.status,
            self.body
        );
        let data = self.body.get("data");
        data.unwrap_or_else(|| {
            panic!(
                "an answer without data, status {}: {}",
                self.status, self.body
            )
        })
    }

    /// A value below `data` by its dotted path, digits counting in lists: `shops.edges.0.node.name`. Panics where there
    /// is none; null is a value.
    #[track_caller]
    pub(crate) fn at(&self, path: &str) -> &Value {
        value_at(self.data(), path)
    }

    /// A text below `data`.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> &str {
        let value = self.at(path);
        value
            .as_str()
            .unwrap_or_else(|| panic!("`{path}` is no text but {value}"))
    }

    /// A whole number below `data`.
    #[track_caller]
    pub(crate) fn int(&self, path: &str) -> i64 {
        let value = self.at(path);
        value
            .as_i64()
            .unwrap_or_else(|| panic!("`{path}` is no whole number but {value}"))
    }

    /// A list below `data`.
    #[track_caller]
    pub(crate) fn list(&self, path: &str) -> &[Value] {
        let value = self.at(path);
        value
            .as_array()
            .unwrap_or_else(|| panic!("`{path}` is no list but {value}"))
    }

    /// The errors, none when there is no such key.
    pub(crate) fn errors(&self) -> &[Value] {
        self.body
            .get("errors")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// `extensions.code` of the first error.
    pub(crate) fn code(&self) -> Option<&str> {
        self.errors().first()?.pointer("/extensions/code")?.as_str()
    }

    /// Asserts the first error's code, and hands that error out.
    #[track_caller]
    pub(crate) fn expect_code(&self, code: &str) -> &Value {
        assert_eq!(
            self.code(),
            Some(code),
            "status {}: {}",
            self.status,
            self.body
        );
        &self.errors()[0]
    }
}

/// Follows a dotted path; panics where it leads nowhere.
#[track_caller]
pub(crate) fn value_at<'a>(from: &'a Value, path: &str) -> &'a Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    from.pointer(&pointer)
        .unwrap_or_else(|| panic!("no `{path}` in {from}"))
}
