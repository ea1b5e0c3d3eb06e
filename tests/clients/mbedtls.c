/* Sends what one read of stdin gives over TLS with mbedTLS, and prints the answer: `mbedtls PORT`, or
 * `mbedtls PORT AUTHORITIES` to verify the certificate. */
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int check(const char *what, int result) {
    if (result < 0) {
        fprintf(stderr, "%s: -0x%04x\n", what, -result);
        exit(1);
    }
    return result;
}

int main(int argc, char **argv) {
    mbedtls_net_context socket;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_ssl_config config;
    mbedtls_ssl_context tls;
    mbedtls_x509_crt trusted;
    unsigned char buffer[16384];
    int length;

    if (argc < 2) return 2;
    mbedtls_net_init(&socket);
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&random);
    mbedtls_ssl_config_init(&config);
    mbedtls_ssl_init(&tls);
    mbedtls_x509_crt_init(&trusted);
    check("seed", mbedtls_ctr_drbg_seed(&random, mbedtls_entropy_func, &entropy, NULL, 0));
    check("defaults", mbedtls_ssl_config_defaults(&config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                                  MBEDTLS_SSL_PRESET_DEFAULT));
    mbedtls_ssl_conf_rng(&config, mbedtls_ctr_drbg_random, &random);
    mbedtls_ssl_conf_authmode(&config, argc > 2 ? MBEDTLS_SSL_VERIFY_REQUIRED : MBEDTLS_SSL_VERIFY_NONE);
    if (argc > 2) check("authorities", mbedtls_x509_crt_parse_file(&trusted, argv[2]));
    mbedtls_ssl_conf_ca_chain(&config, &trusted, NULL);
    check("setup", mbedtls_ssl_setup(&tls, &config));
    check("host name", mbedtls_ssl_set_hostname(&tls, "localhost"));
    check("connect", mbedtls_net_connect(&socket, "127.0.0.1", argv[1], MBEDTLS_NET_PROTO_TCP));
    mbedtls_ssl_set_bio(&tls, &socket, mbedtls_net_send, mbedtls_net_recv, NULL);
    check("handshake", mbedtls_ssl_handshake(&tls));
    length = check("stdin", read(0, buffer, sizeof buffer));
    for (int sent = 0; sent < length;) sent += check("write", mbedtls_ssl_write(&tls, buffer + sent, length - sent));
    while ((length = mbedtls_ssl_read(&tls, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, length, stdout);
    return length == 0 || length == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY ? 0 : (check("read", length), 1);
}
