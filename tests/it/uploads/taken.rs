//! What comes of a picture that is taken: drawn anew, stored under a key of its own, handed out with care.

use entity::image as table;
use image::codecs::webp::WebPEncoder;
use image::{DynamicImage, ImageFormat, RgbaImage};
use sea_orm::EntityTrait;
use sha2::{Digest, Sha256};

use super::{JPEG, PNG, chunk, file, moving, picture, send, upload};
use crate::support::app::TestApp;
use crate::support::client::Client;

/// A JPEG that a camera took lying on its side, with what a camera writes beside it.
fn photo(orientation: u8) -> Vec<u8> {
    let plain = file(64, 32, JPEG);
    let mut tiff = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    tiff.extend([orientation, 0, 0, 0, 0, 0, 0]);
    tiff.extend(b"GPS 21.0287 105.8524 taken at home");
    let mut bytes = plain[..2].to_vec();
    bytes.extend([0xff, 0xe1]);
    bytes.extend(u16::try_from(tiff.len() + 2).unwrap().to_be_bytes());
    bytes.extend(tiff);
    bytes.extend(&plain[2..]);
    bytes
}

async fn fetch(client: &Client, path: &str) -> Vec<u8> {
    let response = client.get(path).await;
    assert_eq!(response.status(), 200);
    response.bytes().await.unwrap().to_vec()
}

fn holds(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}

fn drawn(bytes: &[u8]) -> RgbaImage {
    image::load_from_memory(bytes).unwrap().into_rgba8()
}

/// Whether two colours look alike after a JPEG.
fn alike(a: [u8; 4], b: [u8; 4]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.abs_diff(b) < 24)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_is_turned_upright_and_nothing_is_kept_beside_it() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let client = app.as_user(&user);
    let sent = photo(6);
    assert!(holds(&sent, b"GPS 21.0287"));
    let answer = send(&client, &[("file", b"holiday.png", &sent)]).await;
    let image = answer.image();
    assert_eq!(
        (&image["width"], &image["height"]),
        (&32.into(), &64.into())
    );
    let stored = fetch(&app.client(), &answer.path()).await;
    assert!(!holds(&stored, b"GPS") && !holds(&stored, b"Exif"));
    let seen = drawn(&stored);
    assert_eq!(seen.dimensions(), (32, 64));
    // Turned by a quarter to the right: what was on the left below is on the left above now.
    assert!(
        alike(seen.get_pixel(4, 4).0, [0, 0, 255, 255]),
        "{:?}",
        seen.get_pixel(4, 4)
    );
    assert!(alike(seen.get_pixel(28, 4).0, [255, 0, 0, 255]));

    let row = table::Entity::find().one(app.db()).await.unwrap().unwrap();
    assert_eq!((row.owner_id, row.width, row.height), (user.id, 32, 64));
    assert_eq!(row.content_type, "image/jpeg");
    assert_eq!(usize::try_from(row.bytes).unwrap(), stored.len());
    assert_eq!(row.sha256, hex::encode(Sha256::digest(&stored)));
    assert!(row.created_at > 0);
    assert_eq!(answer.path(), format!("/uploads/{}", row.object_key));
    assert!(!row.object_key.contains("holiday") && !row.object_key.contains(&user.id.to_string()));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_is_known_by_its_bytes_and_stored_as_one_of_two() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let mut glass = picture(64, 48);
    glass.get_pixel_mut(0, 0).0[3] = 7;
    let mut webp = Vec::new();
    WebPEncoder::new_lossless(&mut webp)
        .encode(&picture(64, 48), 64, 48, image::ExtendedColorType::Rgba8)
        .unwrap();
    let mut glass_png = std::io::Cursor::new(Vec::new());
    DynamicImage::ImageRgba8(glass.clone())
        .write_to(&mut glass_png, PNG)
        .unwrap();
    let mut deep = std::io::Cursor::new(Vec::new());
    DynamicImage::ImageRgb16(DynamicImage::ImageRgba8(picture(64, 48)).into_rgb16())
        .write_to(&mut deep, PNG)
        .unwrap();
    let frames = vec![picture(64, 48), RgbaImage::new(64, 48)];
    let cases = [
        ("a JPEG", file(64, 48, JPEG), "image/jpeg"),
        ("a PNG", file(64, 48, PNG), "image/png"),
        ("a PNG to look through", glass_png.into_inner(), "image/png"),
        ("a PNG of sixteen bits", deep.into_inner(), "image/png"),
        ("a WebP", webp, "image/jpeg"),
        ("the first frame of a GIF", moving(frames), "image/png"),
    ];
    for (what, sent, kind) in cases {
        let answer = upload(&client, &sent).await;
        let image = answer.image();
        assert_eq!(
            (&image["width"], &image["height"]),
            (&64.into(), &48.into()),
            "{what}"
        );
        let response = app.client().get(&answer.path()).await;
        assert_eq!(response.headers()["content-type"], kind, "{what}");
        let stored = response.bytes().await.unwrap();
        let is_png = image::guess_format(&stored).unwrap() == ImageFormat::Png;
        assert_eq!(is_png, kind == "image/png", "{what}");
        let seen = drawn(&stored);
        if what.contains("look through") {
            assert_eq!(seen, glass);
        } else if is_png {
            assert_eq!(seen, picture(64, 48), "{what}");
        } else {
            assert!(alike(seen.get_pixel(4, 4).0, [255, 0, 0, 255]), "{what}");
        }
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_hung_on_a_picture_is_gone() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let tails: [&[u8]; 2] = [
        b"<html><script>alert(1)</script></html>",
        b"PK\x03\x04\x14\0\0\0\0\0 a whole archive",
    ];
    let with_text = |text: &[u8]| {
        let plain = file(10, 8, PNG);
        let mut bytes = plain[..33].to_vec();
        bytes.extend(chunk(b"tEXt", &[b"Comment\0", text].concat()));
        bytes.extend(&plain[33..]);
        bytes
    };
    for tail in tails {
        let polyglots = [
            [file(10, 8, PNG).as_slice(), tail].concat(),
            [file(10, 8, JPEG).as_slice(), tail].concat(),
            [moving(vec![picture(10, 8)]).as_slice(), tail].concat(),
            with_text(tail),
        ];
        for polyglot in polyglots {
            let answer = upload(&client, &polyglot).await;
            let stored = fetch(&app.client(), &answer.path()).await;
            assert!(holds(&polyglot, tail) && !holds(&stored, tail));
            assert!(!holds(&stored, b"script") && !holds(&stored, b"PK\x03\x04"));
            assert_eq!(drawn(&stored).dimensions(), (10, 8));
        }
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_is_handed_out_for_ever_and_never_as_anything_else() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let answer = upload(&client, &file(10, 8, PNG)).await;
    let nobody = app.client();
    let response = nobody.get(&answer.path()).await;
    let headers = response.headers().clone();
    assert_eq!(headers["content-type"], "image/png");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let age = headers["cache-control"].to_str().unwrap();
    assert!(age.contains("immutable") && age.contains("public"), "{age}");
    let stored = response.bytes().await.unwrap();
    assert_eq!(headers["content-length"], stored.len().to_string());

    let tag = headers["etag"].to_str().unwrap();
    let again = nobody.with_header("if-none-match", tag);
    let known = again.get(&answer.path()).await;
    assert_eq!(known.status(), 304);
    assert!(known.bytes().await.unwrap().is_empty());

    let key = answer.path().rsplit('/').next().unwrap().to_owned();
    let odd = [
        key.to_uppercase(),
        format!("{key}.png"),
        format!("..%2f{key}"),
        "..%2f..%2fsecrets.toml".to_owned(),
        "%00".to_owned(),
        "0".repeat(32),
        "é".repeat(16),
    ];
    for key in odd {
        let missing = nobody.get(&format!("/uploads/{key}")).await;
        assert_eq!(missing.status(), 404, "{key}");
        assert_eq!(missing.headers()["x-content-type-options"], "nosniff");
    }
    app.finish().await;
}
