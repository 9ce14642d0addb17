//! What is no upload, with the status and the code that say why; and that nothing of it is kept.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{
    BOUNDARY, JPEG, PNG, Part, file, files, form, known, moving, picture, post, send, upload,
};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_needs_a_token_a_header_and_a_form() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let kind = ("content-type", kind.as_str());
    let header = ("x-upload", "1");
    let body = || form(&[("file", b"a.png", &file(4, 4, PNG))]);
    let stranger = app.client();
    let cases = [
        (&stranger, vec![kind, header], 401, "UNAUTHENTICATED"),
        (
            &stranger.with_token("nonsense"),
            vec![kind, header],
            401,
            "UNAUTHENTICATED",
        ),
        (&client, vec![kind], 403, "FORBIDDEN"),
        (&client, vec![kind, ("x-upload", "")], 403, "FORBIDDEN"),
        (
            &client,
            vec![("content-type", "image/png"), header],
            415,
            "UNSUPPORTED_TYPE",
        ),
        (
            &client,
            vec![("content-type", "application/json"), header],
            415,
            "UNSUPPORTED_TYPE",
        ),
        (&client, vec![header], 415, "UNSUPPORTED_TYPE"),
        (
            &client,
            vec![("content-type", "multipart/form-data"), header],
            400,
            "BAD_INPUT",
        ),
    ];
    for (client, headers, status, code) in cases {
        let answer = post(client, &headers, body()).await;
        assert_eq!(
            (answer.status, answer.code()),
            (status, code),
            "{headers:?}"
        );
    }
    assert_eq!((known(&app).await, files(&app)), (0, 0));
    let meant = [kind, ("apollo-require-preflight", "true")];
    assert_eq!(post(&client, &meant, body()).await.status, 200);
    let preflight = reqwest::Client::new()
        .request(
            reqwest::Method::OPTIONS,
            format!("{}/uploads", client.base_url()),
        )
        .send();
    assert!(preflight.await.unwrap().status().is_success());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_has_one_file_with_a_plain_name() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let good = file(4, 4, PNG);
    let cases: Vec<Vec<Part<'_>>> = vec![
        vec![],
        vec![("picture", b"a.png", &good)],
        vec![("file", b"a.png", &good), ("file", b"b.png", &good)],
        vec![("file", b"a.png", &good), ("note", b"", b"hello")],
        vec![("file", b"a.png", b"")],
        vec![("file", b"../a.png", &good)],
        vec![("file", b"..\\a.png", &good)],
        vec![("file", b"..", &good)],
        vec![("file", b"/etc/cron.d/a", &good)],
        vec![("file", b"C:\\a.png", &good)],
        vec![("file", b"a.png\0.html", &good)],
        vec![("file", &[b'a'; 300], &good)],
    ];
    for parts in cases {
        let answer = send(&client, &parts).await;
        let names: Vec<_> = parts
            .iter()
            .map(|(field, name, _)| (field, String::from_utf8_lossy(name)))
            .collect();
        assert_eq!(
            (answer.status, answer.code()),
            (400, "BAD_INPUT"),
            "{names:?}: {}",
            answer.body
        );
    }
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let mut cut = form(&[("file", b"a.png", &good)]);
    cut.truncate(cut.len() - 20);
    let headers = [("content-type", kind.as_str()), ("x-upload", "1")];
    assert_eq!(post(&client, &headers, cut).await.status, 400);
    assert_eq!((known(&app).await, files(&app)), (0, 0));
    // Whatever else a name says is nobody's business.
    for name in ["\u{202e}gnp.exe", "a.html", "CON", ".htaccess"] {
        let answer = send(&client, &[("file", name.as_bytes(), &good)]).await;
        assert!(
            answer.path().len() == "/uploads/".len() + 32,
            "{}",
            answer.path()
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_whole_picture_is_refused() {
    let app = TestApp::build()
        .config(|c| c.rate_limits = false)
        .start()
        .await;
    let client = app.as_user(&app.user().await);
    let others: [&[u8]; 6] = [
        b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>",
        b"<!doctype html><script>alert(1)</script>",
        b"%PDF-1.7",
        b"BM\x3a\0\0\0",
        b"GIF88a",
        b"\x89PNG",
    ];
    for file in others {
        let answer = upload(&client, file).await;
        assert_eq!(
            (answer.status, answer.code()),
            (415, "UNSUPPORTED_TYPE"),
            "{file:?}"
        );
    }
    let mut webp = Vec::new();
    image::codecs::webp::WebPEncoder::new_lossless(&mut webp)
        .encode(&picture(64, 48), 64, 48, image::ExtendedColorType::Rgba8)
        .unwrap();
    let whole = [
        file(64, 48, JPEG),
        file(64, 48, PNG),
        moving(vec![picture(64, 48)]),
        webp,
    ];
    for file in whole {
        assert_eq!(upload(&client, &file).await.status, 200);
        for kept in [file.len() / 2, file.len() * 3 / 4, 24] {
            let answer = upload(&client, &file[..kept]).await;
            let seen = (answer.status, answer.code());
            assert_eq!(
                seen,
                (422, "BROKEN_IMAGE"),
                "{:?} cut to {kept}",
                &file[..4]
            );
        }
    }
    assert_eq!((known(&app).await, files(&app)), (4, 4));
    // Most of it is there, and a decoder would paint the rest grey.
    let large = file(800, 600, JPEG);
    for kept in [large.len() * 9 / 10, large.len() - 2] {
        let answer = upload(&client, &large[..kept]).await;
        let seen = (answer.status, answer.code());
        assert_eq!(seen, (422, "BROKEN_IMAGE"), "{kept} of {}", large.len());
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_told_so() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let mut long = file(4, 4, PNG);
    // Behind the picture, so that nothing but its length is wrong.
    for size in [5 * 1024 * 1024 + 1, 9 * 1024 * 1024, 12 * 1024 * 1024] {
        long.resize(size, b' ');
        let answer = upload(&client, &long).await;
        assert_eq!((answer.status, answer.code()), (413, "TOO_LARGE"), "{size}");
    }
    long.truncate(5 * 1024 * 1024);
    assert_eq!(upload(&client, &long).await.status, 200);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_is_taken_and_then_one_a_second() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let file = file(4, 4, PNG);
    let mut taken = 0;
    let refused = loop {
        let answer = upload(&client, &file).await;
        if answer.status != 200 {
            break answer;
        }
        taken += 1;
    };
    assert!((20..60).contains(&taken), "{taken}");
    assert_eq!((refused.status, refused.code()), (429, "RATE_LIMITED"));
    assert_eq!(refused.retry_after.as_deref(), Some("1"));
    let other = app.as_user(&app.user().await);
    assert_eq!(upload(&other, &file).await.status, 200);
    app.finish().await;
}

/// Sends the beginning of an upload, and then nothing.
async fn stall(client: &Client) -> TcpStream {
    let host = client.base_url().trim_start_matches("http://");
    let mut socket = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST /uploads HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nX-Upload: 1\r\n\
         Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: 100000\r\n\r\n--{BOUNDARY}",
        client.token().unwrap()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stalls_holds_a_few_uploads_for_a_while_and_nobody_else() {
    let app = TestApp::build()
        .config(|c| c.rate_limits = false)
        .start()
        .await;
    let client = app.as_user(&app.user().await);
    let file = file(4, 4, PNG);
    let mut stalled = Vec::new();
    for _ in 0..3 {
        stalled.push(stall(&client).await);
    }
    // One of them may have come while an upload of ours had the last place: then another one takes it.
    eventually(Duration::from_secs(5), "a refusal", async || {
        let is_refused = upload(&client, &file).await.status == 429;
        if !is_refused {
            stalled.push(stall(&client).await);
        }
        is_refused
    })
    .await;
    let other = app.as_user(&app.user().await);
    assert_eq!(upload(&other, &file).await.status, 200);
    let mut told = vec![0; 12];
    let mut held = 0;
    for mut socket in stalled {
        let read = socket.read_exact(&mut told);
        tokio::time::timeout(Duration::from_secs(15), read)
            .await
            .expect("an answer within the limit")
            .unwrap();
        match &told[..] {
            b"HTTP/1.1 408" => held += 1,
            other => assert_eq!(other, b"HTTP/1.1 429"),
        }
    }
    assert_eq!(held, 3);
    eventually(Duration::from_secs(5), "a free place", async || {
        upload(&client, &file).await.status == 200
    })
    .await;
    app.finish().await;
}
