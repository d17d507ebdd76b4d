// Calls each library of a bundle once and prints what it gave, as one line of JSON.
#include <cstddef>
#include <cstdio>
// jpeglib.h uses FILE and size_t without including them.
#include <jpeglib.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <png.h>
#include <tiffio.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <Eigen/Core>
#include <asio.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

int main(int argc, char** argv) {
  int times = 0;
  CLI::App app;
  app.add_option("--times", times);
  CLI11_PARSE(app, argc, argv);

  asio::io_context loop;
  int posted = 0;
  for (int i = 0; i < times; ++i) asio::post(loop, [&posted] { ++posted; });
  loop.run();

  SSL_CTX* tls = SSL_CTX_new(TLS_method());
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>("abc"), 3, digest);

  jpeg_error_mgr errors;
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);

  // Codecs that libtiff.a has in libraries of their own.
  const std::pair<const char*, uint16_t> known[] = {{"deflate", COMPRESSION_ADOBE_DEFLATE},
                                                    {"jbig", COMPRESSION_JBIG},
                                                    {"jpeg", COMPRESSION_JPEG},
                                                    {"lerc", COMPRESSION_LERC},
                                                    {"lzma", COMPRESSION_LZMA},
                                                    {"webp", COMPRESSION_WEBP},
                                                    {"zstd", COMPRESSION_ZSTD}};
  nlohmann::json codecs = nlohmann::json::array();
  for (const auto& [name, codec] : known) {
    if (TIFFIsCODECConfigured(codec) != 0) codecs.push_back(name);
  }

  const Eigen::Matrix2f square = Eigen::Matrix2f::Constant(2).eval() * Eigen::Matrix2f::Identity();
  std::cout << nlohmann::json{{"posted", posted},
                              {"tls", tls != nullptr},
                              {"sha256", digest[0]},
                              {"crc32", crc32(0, reinterpret_cast<const Bytef*>("abc"), 3)},
                              {"png", png_access_version_number() == PNG_LIBPNG_VER},
                              {"codecs", codecs},
                              {"sum", square.sum()}}
            << '\n';
  SSL_CTX_free(tls);
}
