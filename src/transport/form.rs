//! A form with one file, as browsers and other clients send it (multipart/form-data). What the file is, is not known
//! here; its name and type are the sender's word, and nobody's business.

use std::time::Duration;

use axum::body::Body;
use axum::extract::multipart::{Field, Multipart};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;

/// Bytes of a whole form.
pub(super) const LARGEST_FORM: usize = 8 * 1024 * 1024;
/// Bytes above the limit that are still read and thrown away, so that an honest mistake gets its answer: a client that
/// is still writing when the connection closes never sees it.
const LARGEST_SURPLUS: usize = 24 * 1024 * 1024;
/// A form of which nothing comes for so long only holds a connection.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// So does one that trickles in: this is 1.1 Mbit/s for the largest.
const FORM_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a file's name.
const LONGEST_NAME: usize = 255;
/// The one field of the form.
const FIELD: &str = "file";

/// Why no file came out of a form.
#[derive(Debug)]
pub(super) struct Unusable {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Unusable {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

/// Whether the request says that it is such a form.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    content_type
        .and_then(|text| text.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("multipart/form-data"))
}

/// Reads the form and hands its one file out; holds no more than [`LARGEST_FORM`] of it.
pub(super) async fn read_file(request: Request) -> Result<Vec<u8>, Unusable> {
    let (parts, body) = request.into_parts();
    let form = read(body).await?;
    let request = Request::from_parts(parts, Body::from(form));
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|e| Unusable::malformed(e.body_text()))?;
    let unreadable = |_| Unusable::malformed("the form cannot be read");
    let field = form.next_field().await.map_err(unreadable)?;
    let field = field.ok_or_else(|| Unusable::malformed("the form has no field `file`"))?;
    check_names(&field)?;
    let file = field.bytes().await.map_err(unreadable)?;
    if form.next_field().await.map_err(unreadable)?.is_some() {
        return Err(Unusable::malformed(
            "the form must have one field `file` and no other",
        ));
    }
    Ok(file.into())
}

async fn read(body: Body) -> Result<Vec<u8>, Unusable> {
    let late = || {
        Unusable::new(
            StatusCode::REQUEST_TIMEOUT,
            "the form did not arrive in time",
        )
    };
    match tokio::time::timeout(FORM_LIMIT, collect(body)).await {
        Ok(Ok(form)) => Ok(form),
        Ok(Err(Some(unusable))) => Err(unusable),
        Ok(Err(None)) | Err(_) => Err(late()),
    }
}

/// `None`: nothing came for too long.
async fn collect(body: Body) -> Result<Vec<u8>, Option<Unusable>> {
    let mut chunks = body.into_data_stream();
    let (mut form, mut surplus) = (Vec::new(), 0);
    while let Some(chunk) = tokio::time::timeout(SILENCE_LIMIT, chunks.next())
        .await
        .map_err(|_| None)?
    {
        let chunk = chunk.map_err(|_| Unusable::malformed("the form did not arrive as a whole"))?;
        if surplus == 0 && form.len() + chunk.len() <= LARGEST_FORM {
            form.extend_from_slice(&chunk);
        } else {
            surplus += chunk.len();
            // Nobody needs it any more.
            form = Vec::new();
        }
        if surplus > LARGEST_SURPLUS {
            break;
        }
    }
    if surplus == 0 {
        return Ok(form);
    }
    Err(Some(Unusable::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the form must not be larger than {LARGEST_FORM} bytes"),
    )))
}

/// A name is not used for anything; one that is a path is no accident.
fn check_names(field: &Field<'_>) -> Result<(), Unusable> {
    if field.name() != Some(FIELD) {
        return Err(Unusable::malformed(
            "the form's field must be called `file`",
        ));
    }
    let name = field.file_name().unwrap_or_default();
    let is_path = name.contains(['/', '\\']) || name == ".." || name == ".";
    if is_path || name.contains(char::is_control) || name.len() > LONGEST_NAME {
        return Err(Unusable::malformed(
            "the file's name must be a name, without a path and control characters",
        ));
    }
    Ok(())
}
