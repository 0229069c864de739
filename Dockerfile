# One static binary on an empty image.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY providers/scrape/nodates providers/scrape/nodates
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=auto -trimpath -tags nodynamic -ldflags "-s -w" -o /farebox .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /farebox /farebox
COPY --from=build /src/LICENSE /LICENSE
# Relative paths of the config, the store's default among them, are below the volume.
WORKDIR /data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/farebox"]
CMD ["serve", "-c", "/data/farebox.yaml"]
