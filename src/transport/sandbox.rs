//! The page of the built-in payment provider: what a buyer would see at a bank, with buttons for what can go wrong.
//! Moves no money; the provider itself is `domain::orders`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::infra::fault::{Fault, Faulty};
use domain::orders::Error;
use domain::orders::payment::{SandboxAction, SandboxPage, SandboxReport};
use reqwest::Url;
use schema::context::RequestMeta;

use super::App;
use super::http::{plain, read};

/// Bytes of a posted form: one short field.
const LARGEST_FORM: usize = 1024;
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem}\
    button{font:inherit;padding:.4rem .8rem;margin:.2rem 0;width:100%;text-align:left}code{word-break:break-all}";

/// The buttons: name in the form, what happens, what the button says.
const BUTTONS: [(&str, SandboxAction, &str); 6] = [
    ("pay", SandboxAction::Succeed, "Pay"),
    ("fail", SandboxAction::Fail, "Fail: the bank refuses"),
    (
        "repeat",
        SandboxAction::Repeat,
        "Pay, and tell the shop twice",
    ),
    (
        "twice",
        SandboxAction::PayTwice,
        "Pay twice: two transactions",
    ),
    ("amount", SandboxAction::WrongAmount, "Pay a wrong amount"),
    (
        "late",
        SandboxAction::Late,
        "Pay late: after the order is closed",
    ),
];

/// Shows what is to be paid.
pub(super) async fn page(State(app): State<Arc<App>>, Path(token): Path<String>) -> Response {
    match find(&app, token).await {
        Ok(page) => html(&show(&page, None)),
        Err(response) => response,
    }
}

/// Does what a button says, and shows what came of it.
pub(super) async fn act(
    State(app): State<Arc<App>>,
    Extension(meta): Extension<RequestMeta>,
    Path(token): Path<String>,
    form: Body,
) -> Response {
    let form = match read(form, LARGEST_FORM).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let Some(action) = chosen(&form) else {
        return plain(StatusCode::BAD_REQUEST, "the form names no action");
    };
    let page = match find(&app, token.clone()).await {
        Ok(page) => page,
        Err(response) => return response,
    };
    let orders = app.services.orders.clone();
    let key = page.key;
    let report = match app
        .tasks
        .spawn(async move { orders.sandbox_pay(key, action).await })
        .await
    {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => return trouble(&error),
        Err(e) => {
            tracing::error!(request.id = meta.request_id, error = %e, "the sandbox panicked");
            return plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "something went wrong on our side",
            );
        }
    };
    match find(&app, token).await {
        Ok(page) => html(&show(&page, Some(&report))),
        Err(response) => response,
    }
}

async fn find(app: &Arc<App>, token: String) -> Result<SandboxPage, Response> {
    let orders = app.services.orders.clone();
    match app
        .tasks
        .spawn(async move { orders.sandbox_page(&token).await })
        .await
    {
        Ok(Ok(Some(page))) => Ok(page),
        Ok(Ok(None)) => Err(plain(StatusCode::NOT_FOUND, "nothing is to be paid here")),
        Ok(Err(error)) => Err(trouble(&error)),
        Err(_) => Err(plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "something went wrong on our side",
        )),
    }
}

fn trouble(error: &Error) -> Response {
    let status = match error.fault() {
        Fault::NotFound => StatusCode::NOT_FOUND,
        Fault::TryLater { .. }
        | Fault::Busy { .. }
        | Fault::Unavailable
        | Fault::RateLimited { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Fault::Internal => {
            tracing::error!(error = %error, "the sandbox failed");
            return plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "something went wrong on our side",
            );
        }
        Fault::Unauthenticated | Fault::Forbidden | Fault::BadInput { .. } => {
            StatusCode::BAD_REQUEST
        }
    };
    plain(status, &error.to_string())
}

fn chosen(form: &[u8]) -> Option<SandboxAction> {
    let form = std::str::from_utf8(form).ok()?;
    let url = Url::parse(&format!("http://localhost/?{form}")).ok()?;
    let (_, name) = url.query_pairs().find(|(field, _)| field == "action")?;
    BUTTONS
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, action, _)| *action)
}

/// Everything shown is ours or a number: nothing in it needs escaping.
fn show(page: &SandboxPage, report: Option<&SandboxReport>) -> String {
    let buttons = BUTTONS
        .map(|(name, _, label)| {
            format!("<button name=\"action\" value=\"{name}\">{label}</button>")
        })
        .join("\n");
    let outcome = report.map(outcome).unwrap_or_default();
    let (amount, currency, status) = (page.amount.decimal(), page.amount.currency, page.status);
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Sandbox payment</title><style>{STYLE}</style>\n\
         <h1>{amount} {currency}</h1>\n<p>The order is <strong>{status:?}</strong>. No money moves here.</p>\n{outcome}\
         <form method=\"post\">\n{buttons}\n</form>\n</html>\n"
    )
}

fn outcome(report: &SandboxReport) -> String {
    let transactions = report
        .transaction_ids
        .iter()
        .map(|id| format!("<code>{id}</code>"))
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "<p>Transactions: {transactions}. Callbacks taken: {}.</p>\n",
        report.delivered
    )
}

fn html(page: &str) -> Response {
    let mut response = (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
        page.to_owned(),
    )
        .into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use domain::orders::payment::SandboxAction;

    use super::chosen;

    #[test]
    fn only_a_known_button_does_something() {
        assert_eq!(chosen(b"action=twice"), Some(SandboxAction::PayTwice));
        for nothing in [&b"action=steal"[..], b"", b"twice", b"\xff"] {
            assert_eq!(chosen(nothing), None);
        }
    }
}
