# A broker in a container.
#
#     docker build -t magnetar .
#
# A container is reached over a network, so the broker asks who somebody is, and says what is
# missing until it is told how. Make a key, and a token for yourself, once:
#
#     docker run --rm -v magnetar:/magnetar magnetar tokens init > admin.jwt
#
# Then serve, here without TLS, for clients on this machine:
#
#     docker run -d --name magnetar -v magnetar:/magnetar \
#       -p 127.0.0.1:6650:6650 -p 127.0.0.1:8080:8080 \
#       -e MAGNETAR_AUTHENTICATION=true \
#       -e MAGNETAR_TOKEN_SECRET_KEY=/magnetar/magnetar-token.key \
#       -e MAGNETAR_SUPER_USER_ROLES=admin \
#       -e MAGNETAR_INSECURE=true -e MAGNETAR_ADVERTISED_HOST=127.0.0.1 magnetar
#
# With TLS leave MAGNETAR_INSECURE out, give MAGNETAR_TLS_CERTIFICATE_FILE, MAGNETAR_TLS_KEY_FILE
# and the name of the machine as MAGNETAR_ADVERTISED_HOST, publish 6651 and 8443 instead, and set
# HEALTH_URL=https://127.0.0.1:8443/admin/v2/brokers/ready. A magnetar.toml in the volume does
# instead of variables; docs/security.md has the rest.

FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY tools/hatch_build.py tools/
COPY src src
RUN MAGNETAR_COMPILE=yes pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels \
 && useradd --system --home-dir /magnetar --create-home magnetar
USER magnetar
WORKDIR /magnetar
VOLUME /magnetar
ENV MAGNETAR_HOST=0.0.0.0 MAGNETAR_DATA=/magnetar/data
ENV HEALTH_URL=http://127.0.0.1:8080/admin/v2/brokers/ready
EXPOSE 6650 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import os, ssl, urllib.request as r; r.urlopen(os.environ['HEALTH_URL'], timeout=4, context=ssl._create_unverified_context())"]
ENTRYPOINT ["magnetar"]
CMD ["serve"]
