/* Sends what one read of stdin gives over TLS 1.2 with wolfSSL, and prints the answer: `wolfssl PORT AUTHORITIES`. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wolfssl/options.h>
#include <wolfssl/ssl.h>

static void check(const char *what, int is_fine, int error) {
    if (is_fine) return;
    fprintf(stderr, "%s: %d\n", what, error);
    exit(1);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char buffer[16384];
    int length, handle = socket(AF_INET, SOCK_STREAM, 0);

    if (argc < 3) return 2;
    address.sin_port = htons(atoi(argv[1]));
    check("connect", connect(handle, (struct sockaddr *)&address, sizeof address) == 0, 0);
    wolfSSL_Init();
    WOLFSSL_CTX *context = wolfSSL_CTX_new(wolfTLSv1_2_client_method());
    wolfSSL_CTX_set_verify(context, WOLFSSL_VERIFY_PEER, NULL);
    length = wolfSSL_CTX_load_verify_locations(context, argv[2], NULL);
    check("authorities", length == WOLFSSL_SUCCESS, length);
    WOLFSSL *tls = wolfSSL_new(context);
    check("host name", wolfSSL_check_domain_name(tls, "localhost") == WOLFSSL_SUCCESS, 0);
    check("socket", wolfSSL_set_fd(tls, handle) == WOLFSSL_SUCCESS, 0);
    length = wolfSSL_connect(tls);
    check("handshake", length == WOLFSSL_SUCCESS, wolfSSL_get_error(tls, length));
    length = read(0, buffer, sizeof buffer);
    check("write", wolfSSL_write(tls, buffer, length) == length, 0);
    while ((length = wolfSSL_read(tls, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, length, stdout);
    length = wolfSSL_get_error(tls, length);
    check("read", length == WOLFSSL_ERROR_ZERO_RETURN, length);
}
