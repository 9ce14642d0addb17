//! The envelope of an operation: `query`, `operationName`, `variables`, `extensions`. What the query says is `schema`.

use std::collections::HashMap;

use async_graphql::{Request, Value, Variables};
use reqwest::Url;
use serde::Deserialize;

/// The envelope as clients send it in JSON. Unknown keys are let through, as the GraphQL-over-HTTP text wants.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope {
    query: String,
    operation_name: Option<String>,
    variables: Option<Variables>,
    extensions: Option<HashMap<String, Value>>,
}

/// Why an envelope was not understood, for the developer who sent it.
pub(super) type Malformed = String;

impl Envelope {
    /// Of a POST body.
    pub(super) fn from_json(body: &[u8]) -> Result<Request, Malformed> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'[') {
            return Err("batches are not supported: send one operation a request".to_owned());
        }
        let envelope: Self = serde_json::from_slice(body)
            .map_err(|e| format!("the body is no GraphQL request: {e}"))?;
        Ok(envelope.into_request())
    }

    /// Of the query string of a GET.
    pub(super) fn from_query_string(query_string: &str) -> Result<Request, Malformed> {
        // Only the query string is looked at; a URL needs something in front of it.
        let url = Url::parse(&format!("http://localhost/?{query_string}"))
            .map_err(|_| "the query string is malformed".to_owned())?;
        let mut parameters = HashMap::new();
        for (name, value) in url.query_pairs() {
            if parameters
                .insert(name.to_string(), value.to_string())
                .is_some()
            {
                return Err(format!("the parameter `{name}` stands there twice"));
            }
        }
        let query = parameters
            .remove("query")
            .ok_or("the parameter `query` is missing")?;
        let envelope = Self {
            query,
            operation_name: parameters.remove("operationName"),
            variables: json_parameter(&mut parameters, "variables")?,
            extensions: json_parameter(&mut parameters, "extensions")?,
        };
        Ok(envelope.into_request())
    }

    /// As the library wants it. An empty operation name is none, as GraphiQL sends it.
    pub(super) fn into_request(self) -> Request {
        let mut request = Request::new(self.query).variables(self.variables.unwrap_or_default());
        request.operation_name = self.operation_name.filter(|name| !name.is_empty());
        request.extensions = async_graphql::Extensions(self.extensions.unwrap_or_default());
        request
    }
}

fn json_parameter<T: for<'de> Deserialize<'de>>(
    parameters: &mut HashMap<String, String>,
    name: &str,
) -> Result<Option<T>, Malformed> {
    match parameters.remove(name) {
        Some(text) if !text.is_empty() => serde_json::from_str(&text)
            .map_err(|_| format!("the parameter `{name}` is no JSON object")),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::Envelope;

    #[test]
    fn a_good_envelope_is_read_from_both_places() {
        let body = br#"{"query":"query A { a }","operationName":"A","variables":{"n":1},"extensions":null,"other":1}"#;
        let posted = Envelope::from_json(body).unwrap();
        let got = Envelope::from_query_string(
            "query=query%20A%20%7B%20a%20%7D&operationName=A&variables=%7B%22n%22%3A1%7D",
        )
        .unwrap();
        for request in [posted, got] {
            assert_eq!(
                (request.query.as_str(), request.operation_name.as_deref()),
                ("query A { a }", Some("A"))
            );
            assert_eq!(request.variables.len(), 1);
        }
    }

    #[test]
    fn a_malformed_envelope_is_refused() {
        let bodies = [
            "",
            "{",
            "[]",
            "[{\"query\":\"{a}\"}]",
            "\"a\"",
            "{}",
            "{\"query\":1}",
            "{\"query\":\"{a}\",\"variables\":[]}",
            "{\"query\":\"{a}\",\"variables\":\"{}\"}",
            "{\"query\":\"{a}\",\"operationName\":1}",
            "{\"query\":\"{a}\",\"extensions\":0}",
            "{\"query\":\"{a}\",\"query\":\"{b}\"}",
        ];
        for body in bodies {
            assert!(Envelope::from_json(body.as_bytes()).is_err(), "{body}");
        }
        for query_string in [
            "",
            "query=a&query=b",
            "query=a&variables=x",
            "query=a&variables=[]",
            "operationName=A",
        ] {
            assert!(
                Envelope::from_query_string(query_string).is_err(),
                "{query_string}"
            );
        }
    }
}
