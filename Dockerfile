# One static binary on an empty image.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=auto -trimpath -tags nodynamic -ldflags "-s -w" -o /farebox .
# The folders that farebox writes to, which it may not make as the user below.
RUN mkdir -p /image/data /image/tmp && chmod 1777 /image/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /farebox /farebox
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build --chown=10001:10001 /image /
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
# Relative paths of the config, the store's default among them, are below the volume.
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["/farebox", "health", "-c", "/data/farebox.yaml"]
ENTRYPOINT ["/farebox"]
CMD ["serve", "-c", "/data/farebox.yaml"]
