# docker build -t etagere .        How to run it: docs/running.md
FROM python:3.13-slim
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-cache-dir /source \
 && useradd --system etagere \
 && install --directory --owner etagere --mode 700 /data
USER etagere
VOLUME /data
EXPOSE 10000 10001 10002 5672 5671 5300
HEALTHCHECK CMD ["etagere", "status"]
ENTRYPOINT ["etagere", "serve", "--data", "/data", "--host", "0.0.0.0"]
