//! Files that say they are larger than they are, or are larger than they say.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{JPEG, PNG, chunk, file, files, known, moving, picture, png_that_says, upload};
use crate::support::app::TestApp;
use crate::support::people::{random_phone, request_login_code, try_log_in};
use crate::support::process::Process;
use crate::support::stores::Stores;

const READY: Duration = Duration::from_secs(60);

/// So many zeros, packed.
fn zeros(bytes: usize) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    let block = vec![0; 1024 * 1024];
    for _ in 0..bytes / block.len() {
        packed.write_all(&block).unwrap();
    }
    packed.finish().unwrap()
}

/// The same JPEG with another size in its header.
fn jpeg_that_says(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = file(64, 48, JPEG);
    let frame = bytes.windows(2).position(|b| b == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
    bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_header_is_enough_to_refuse_too_many_pixels() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let mut gif = moving(vec![picture(8, 8)]);
    gif[6..10].copy_from_slice(&[0x60, 0xea, 0x60, 0xea]);
    let cases = [
        png_that_says(60_000, 60_000, &zeros(1024 * 1024)),
        png_that_says(6_400, 6_400, b""),
        png_that_says(1, 30_000, b""),
        png_that_says(u32::MAX, u32::MAX, b""),
        jpeg_that_says(60_000, 60_000),
        gif,
    ];
    for (at, bomb) in cases.iter().enumerate() {
        let answer = upload(&client, bomb).await;
        let seen = (answer.status, answer.code());
        // A size that no PNG may have makes it a broken one.
        assert!(
            seen == (413, "TOO_LARGE") || (at == 3 && seen.0 == 422),
            "{at}: {}",
            answer.body
        );
    }
    assert_eq!((known(&app).await, files(&app)), (0, 0));
    app.finish().await;
}

/// The most memory that a process ever had, in bytes.
fn peak(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_lies_about_its_size_costs_no_memory() {
    let stores = Stores::embedded();
    let mut server = Process::spawn(&["serve"], &stores.env(), stores.folder.path());
    server.wait_ready(READY).await;
    let phone = random_phone();
    request_login_code(&server.client(), &phone).await.data();
    let code = server.login_code(&phone, READY).await;
    let login = try_log_in(&server.client(), &phone, &code).await;
    let client = server.client().with_token(login.text("login.token"));
    assert_eq!(upload(&client, &file(64, 48, JPEG)).await.status, 200);

    let before = peak(&server);
    // A thousand times as much picture data as the header's size takes: the rest is not unpacked, or refused.
    let more = png_that_says(100, 100, &zeros(512 * 1024 * 1024));
    assert!(more.len() < 1024 * 1024);
    let answer = upload(&client, &more).await;
    assert!([200, 422].contains(&answer.status), "{}", answer.body);
    // A colour profile that unpacks to as much, before the picture.
    let plain = file(64, 48, PNG);
    let profile = [b"p\0\0".as_slice(), &zeros(512 * 1024 * 1024)].concat();
    let profiled = [&plain[..33], &chunk(b"iCCP", &profile), &plain[33..]].concat();
    let answer = upload(&client, &profiled).await;
    assert!([200, 413, 422].contains(&answer.status), "{}", answer.body);
    // Much less than it takes.
    for less in [
        png_that_says(3_000, 3_000, &zeros(1024 * 1024)),
        jpeg_that_says(640, 480),
    ] {
        let answer = upload(&client, &less).await;
        assert!(
            answer.status == 422 || answer.status == 200,
            "{}",
            answer.body
        );
    }
    let grown = peak(&server).saturating_sub(before) / (1024 * 1024);
    assert!(grown < 150, "{grown} MiB more");
    assert!(server.term(Duration::from_secs(15)).await.success());
    server.assert_no_panic();
}
