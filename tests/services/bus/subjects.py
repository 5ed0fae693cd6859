"""A message as filters see it, given as plain dictionaries."""

from uuid import UUID

from etagere.services.bus.sql_evaluate import missing


class PlainSubject:
    def __init__(self, user=None, system=None):
        self._user = user or {}
        self._system = system or {}
        self._ids = 0

    def system(self, name):
        return self._system.get(name)

    def user(self, name):
        if name in self._user:
            return self._user[name]
        for key, value in self._user.items():
            if key.casefold() == name.casefold():
                return value
        return missing

    def user_exactly(self, name):
        return self._user.get(name, missing)

    def new_id(self):
        self._ids += 1
        return UUID(int=self._ids)
